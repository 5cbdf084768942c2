/**
 * The shapes of everything the HTTP API takes and gives: the one source of validation, of TypeScript types and of the
 * OpenAPI document.
 */
export * from "./schemas/parameters.ts";
export * from "./schemas/replies.ts";
export * from "./schemas/requests.ts";
export * from "./schemas/sessionless.ts";
