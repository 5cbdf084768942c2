import { render } from "hono/jsx/dom";
import { Console } from "./console.tsx";

const root = document.querySelector("#console");
if (root) render(<Console />, root as HTMLElement);
