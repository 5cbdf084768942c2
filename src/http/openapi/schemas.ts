/**
 * The shapes of everything the HTTP API takes and returns: the single source of validation, TypeScript types and the
 * OpenAPI document.
 */
export * from "./schemas/parameters.ts";
export * from "./schemas/replies.ts";
export * from "./schemas/requests.ts";
export * from "./schemas/sessionless.ts";
