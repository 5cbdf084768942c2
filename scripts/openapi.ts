/** Writes the OpenAPI document into the repository, byte for byte as the service serves it. */
import { writeFileSync } from "node:fs";
import { openApiDocument } from "../src/http/openapi/document.ts";

writeFileSync(new URL("../docs/openapi.json", import.meta.url), openApiDocument());
