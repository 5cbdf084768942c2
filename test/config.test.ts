import { describe, expect, it } from "vitest";
import {
  type BadVariable,
  type Config,
  checkVariable,
  readConfig,
  ruleInWords,
  type VariableName,
} from "../src/core/config/config.ts";
import { JURISDICTIONS, LOCATIONS, locationOf } from "../src/core/config/locations.ts";

const MAX_SECONDS = 9_223_372_036;

function good(variables: Record<string, unknown>): Config {
  const result = readConfig(variables);
  if (!result.ok) throw new Error(`refused: ${result.bad.map(({ name }) => name)}`);
  return result.config;
}

function bad(variables: Record<string, unknown>): readonly BadVariable[] {
  const result = readConfig(variables);
  return result.ok ? [] : result.bad;
}

const names = (variables: Record<string, unknown>) => bad(variables).map(({ name }) => name);

interface IntegerCase {
  readonly name: VariableName;
  readonly field?: keyof Config;
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
  /** How the value shows in the field. */
  readonly unit?: number;
}

const count = { fallback: 0, min: 0, max: Number.MAX_SAFE_INTEGER } as const;
const INTEGERS: readonly IntegerCase[] = [
  { name: "READ_TIMEOUT_S", field: "readTimeoutMs", fallback: 23, min: 1, max: MAX_SECONDS, unit: 1000 },
  { name: "WRITE_TIMEOUT_S", field: "writeTimeoutMs", fallback: 5, min: 0, max: MAX_SECONDS, unit: 1000 },
  { name: "DEFAULT_LEASE_TTL_S", field: "defaultLeaseSeconds", fallback: 33, min: 1, max: MAX_SECONDS },
  { name: "LEASE_SWEEP_INTERVAL_S", fallback: 1, min: 1, max: MAX_SECONDS },
  { name: "GC_INTERVAL_S", field: "gcIntervalMs", fallback: 5, min: 1, max: MAX_SECONDS, unit: 1000 },
  { name: "GC_MAX_IDLE_S", field: "gcMaxIdleMs", fallback: 60, min: 0, max: MAX_SECONDS, unit: 1000 },
  { name: "MAX_LOCKS", field: "maxLocks", ...count },
  { name: "MAX_WAITERS", field: "maxWaiters", ...count },
  { name: "MAX_CONNECTIONS", field: "maxConnections", ...count },
  { name: "MAX_CONNECTIONS_PER_IP", field: "maxConnectionsPerIp", ...count },
  { name: "HTTP_SESSION_IDLE_S", field: "httpSessionIdleSeconds", fallback: 20, min: 0, max: MAX_SECONDS },
  { name: "HTTP_SESSION_IDLE_S", field: "httpSessionIdleMs", fallback: 20, min: 0, max: MAX_SECONDS, unit: 1000 },
  { name: "HTTP_MAX_SESSIONS", field: "httpMaxSessions", ...count },
  { name: "HTTP_MAX_SESSIONS_PER_IP", field: "httpMaxSessionsPerIp", ...count },
  { name: "HTTP_RATE_LIMIT_PER_IP", field: "httpRateLimitPerIp", fallback: 0, min: 0, max: 1_000_000 },
  { name: "HTTP_RATE_LIMIT_BURST", field: "httpRateLimitBurst", fallback: 0, min: 0, max: 1_000_000 },
  { name: "GODISTLOCK_PORT", field: "godistlockPort", fallback: 10_000, min: 0, max: 65_535 },
  { name: "RELAY_PORT", field: "relayPort", fallback: 20_000, min: 0, max: 65_535 },
];

describe.each(INTEGERS)("$name", ({ name, field, fallback, min, max, unit = 1 }) => {
  const value = (raw: unknown) => {
    const config = good({ [name]: raw });
    return field && (config[field] as number) / unit;
  };
  const expected = (number: number) => field && number;

  it("has its default when unset, empty or blank", () => {
    for (const raw of [undefined, null, "", "   ", "\t\n"]) expect(value(raw)).toBe(expected(fallback));
  });

  it("takes its whole range, as text, as a number, with blanks around and zeros before", () => {
    for (const number of [min, min + 1, max]) {
      for (const raw of [String(number), number, ` ${number}\n`, `000${number}`])
        expect(value(raw)).toBe(expected(number));
    }
  });

  it("is refused below and above its range", () => {
    for (const raw of [String(min - 1), min - 1, `${max + 1}`, max + 1, "99999999999999999999999"]) {
      expect(names({ [name]: raw })).toEqual([name]);
    }
  });

  it("is refused when it is not a whole number", () => {
    for (const raw of ["x", "1.5", 1.5, "1e3", "0x10", "+1", "-0", "1 2", "٣", true, false, Number.NaN, {}]) {
      expect(names({ [name]: raw })).toEqual([name]);
    }
  });
});

describe.each([
  { name: "AUTO_RELEASE_ON_DISCONNECT", field: "autoRelease", fallback: true },
  { name: "DRAINING", field: "draining", fallback: false },
  { name: "DEBUG", field: "debug", fallback: false },
] as const)("$name", ({ name, field, fallback }) => {
  it("has its default when unset, empty or blank", () => {
    for (const raw of [undefined, null, "", "  "]) expect(good({ [name]: raw })[field]).toBe(fallback);
  });

  it("is true or false in any case, as text, number or boolean", () => {
    for (const raw of ["1", "yes", "YES", "true", "TrUe", " true ", true, 1]) {
      expect(good({ [name]: raw })[field]).toBe(true);
    }
    for (const raw of ["0", "no", "No", "false", "FALSE", "\tfalse", false, 0]) {
      expect(good({ [name]: raw })[field]).toBe(false);
    }
  });

  it("is refused otherwise", () => {
    for (const raw of ["on", "off", "y", "n", "2", 2, "truee", "yes no", "01"]) {
      expect(names({ [name]: raw })).toEqual([name]);
    }
  });
});

describe("FENCE_FLOOR", () => {
  it("is exact over its whole range and 0 when unset", () => {
    for (const raw of [undefined, "", " "]) expect(good({ FENCE_FLOOR: raw }).fenceFloor).toBe(0n);
    for (const floor of [0n, 1n, 2n ** 53n + 1n, 2n ** 63n - 1n]) {
      expect(good({ FENCE_FLOOR: String(floor) }).fenceFloor).toBe(floor);
    }
    expect(good({ FENCE_FLOOR: 1_700_000_000 }).fenceFloor).toBe(1_700_000_000n);
  });

  it("is refused outside of it", () => {
    for (const raw of [String(2n ** 63n), "-1", -1, "1.5", "0x1", "x", true]) {
      expect(names({ FENCE_FLOOR: raw })).toEqual(["FENCE_FLOOR"]);
    }
  });
});

describe.each([
  { name: "AUTH_TOKEN", field: "authToken", min: 1 },
  { name: "BRIDGE_SECRET", field: "bridgeSecret", min: 1 },
  { name: "ADMIN_TOKEN", field: "adminToken", min: 1 },
  { name: "TICKET_SECRET", field: "ticketSecret", min: 32 },
] as const)("$name", ({ name, field, min }) => {
  it("is unset when absent or empty, and trimmed otherwise", () => {
    const secret = "s3cret".padEnd(min, "s");
    expect(good({})[field]).toBeUndefined();
    expect(good({ [name]: "" })[field]).toBeUndefined();
    expect(good({ [name]: `  ${secret} \n` })[field]).toBe(secret);
    expect(good({ [name]: 10n ** BigInt(min) })[field]).toBe(String(10n ** BigInt(min)));
  });

  it("that is blank is a mistake, never an open service", () => {
    for (const raw of [" ", "\t", "\n", " \r\n ", " ".repeat(40)]) expect(names({ [name]: raw })).toEqual([name]);
  });

  it(`has ${min} to 65,536 bytes, not one more or less, and no line break inside`, () => {
    for (const length of [min, 65_536]) expect(good({ [name]: "x".repeat(length) })[field]).toHaveLength(length);
    for (const raw of [`${"x".repeat(min - 1)} `, "x".repeat(65_537), "é".repeat(32_769)]) {
      expect(names({ [name]: raw })).toEqual([name]);
    }
    for (const raw of [`a\nb${"x".repeat(40)}`, `a\rb${"x".repeat(40)}`])
      expect(names({ [name]: raw })).toEqual([name]);
    expect(ruleInWords(name)).toBe(`must be ${min} to 65536 bytes, not blank, without line breaks`);
  });
});

it("ADMIN_TOKEN may be the AUTH_TOKEN", () => {
  expect(good({ AUTH_TOKEN: "x", ADMIN_TOKEN: "x" })).toMatchObject({ authToken: "x", adminToken: "x" });
});

describe("variables that would leave a service open in silence", () => {
  it.each(["AUTH_TOKEN_FILE", "TLS_CERT", "TLS_KEY", "ADMIN_TOKEN_FILE", "TICKET_SECRET_FILE"] as const)(
    "%s is refused when set",
    (name) => {
      for (const raw of ["/etc/token", "x", 0, false]) expect(names({ [name]: raw })).toEqual([name]);
      for (const raw of [undefined, "", "  "]) expect(names({ [name]: raw })).toEqual([]);
    },
  );
});

describe("HTTP_CORS_ALLOWED_ORIGINS", () => {
  it("is a comma list, nothing when unset", () => {
    expect(good({}).corsOrigins).toEqual([]);
    expect(good({ HTTP_CORS_ALLOWED_ORIGINS: " " }).corsOrigins).toEqual([]);
    expect(good({ HTTP_CORS_ALLOWED_ORIGINS: "*" }).corsOrigins).toEqual(["*"]);
    expect(good({ HTTP_CORS_ALLOWED_ORIGINS: " https://a.example ,, http://b:1 " }).corsOrigins).toEqual([
      "https://a.example",
      "http://b:1",
    ]);
  });
});

describe("HTTP_ALLOWED_HOSTS", () => {
  it("is a comma list of names in any case, nothing when unset", () => {
    expect(good({}).allowedHosts).toEqual([]);
    expect(good({ HTTP_ALLOWED_HOSTS: " " }).allowedHosts).toEqual([]);
    expect(good({ HTTP_ALLOWED_HOSTS: "*" }).allowedHosts).toEqual(["*"]);
    expect(good({ HTTP_ALLOWED_HOSTS: " Locks.LAN ,, b_1.example., 192.0.2.7,[::1]" }).allowedHosts).toEqual([
      ...["locks.lan", "b_1.example", "192.0.2.7", "[::1]"],
    ]);
  });

  it.each([
    "http://locks.lan",
    "locks.lan:6389",
    "locks.lan/",
    "*.lan",
    "a b",
    "a..b",
    ".lan",
    "::1",
    "b\u00fccher.example",
  ])("refuses what no Host header can match: %s", (hosts) =>
    expect(names({ HTTP_ALLOWED_HOSTS: hosts })).toEqual(["HTTP_ALLOWED_HOSTS"]),
  );
});

describe("several bad variables", () => {
  it("are all named, in the order of the table, whatever the order they were set in", () => {
    const variables = {
      TLS_KEY: "x",
      TICKET_SECRET: "too short",
      ADMIN_TOKEN: " ",
      DEBUG: "maybe",
      GC_INTERVAL_S: "0",
      FENCE_FLOOR: "-1",
      AUTH_TOKEN: " ",
      MAX_LOCKS: "many",
      READ_TIMEOUT_S: "0",
      AUTO_RELEASE_ON_DISCONNECT: "sure",
      MAX_WAITERS: "3",
    };
    expect(names(variables)).toEqual([
      "AUTH_TOKEN",
      "READ_TIMEOUT_S",
      "GC_INTERVAL_S",
      "MAX_LOCKS",
      "AUTO_RELEASE_ON_DISCONNECT",
      "FENCE_FLOOR",
      "DEBUG",
      "ADMIN_TOKEN",
      "TICKET_SECRET",
      "TLS_KEY",
    ]);
  });

  it("are named with the rule they break, never with their value", () => {
    const secret = "hunter2-hunter2";
    const variables = {
      AUTH_TOKEN: `${secret}\n${secret}`,
      READ_TIMEOUT_S: secret,
      DRAINING: secret,
      FENCE_FLOOR: secret,
      AUTH_TOKEN_FILE: secret,
      TLS_CERT: secret,
      ADMIN_TOKEN: `${secret}\n${secret}`,
      TICKET_SECRET: secret,
    };
    const result = readConfig(variables);
    expect(JSON.stringify(result)).not.toContain("hunter2");
    expect(bad(variables)).toHaveLength(8);
    for (const { name, rule } of bad(variables)) {
      expect(rule).not.toBe("");
      const raw = (variables as Record<string, unknown>)[name];
      expect(checkVariable(name as VariableName, raw)).toEqual({ name, rule });
    }
  });
});

describe("origins and header names", () => {
  it.each(["https://app.example/", "app.example", "https://a.example,b", "https://a b", "https://u@a.example"])(
    "that no browser sends are refused: %s",
    (origins) => expect(names({ HTTP_CORS_ALLOWED_ORIGINS: origins })).toEqual(["HTTP_CORS_ALLOWED_ORIGINS"]),
  );

  it("of any scheme and port are fine, and so are pages without one", () => {
    const origins = "http://localhost:3000,capacitor://localhost,null,http://[::1]:80";
    expect(good({ HTTP_CORS_ALLOWED_ORIGINS: origins }).corsOrigins).toEqual(origins.split(","));
  });

  it("a header must have a name that a header can have", () => {
    expect(names({ CLIENT_IP_HEADER: "bad name" })).toEqual(["CLIENT_IP_HEADER"]);
  });
});

describe("CLIENT_IP_HEADER", () => {
  it("is the edge's own when unset, and no header at all when set to nothing", () => {
    expect(good({}).clientIpHeader).toBe("CF-Connecting-IP");
    expect(good({ CLIENT_IP_HEADER: " " }).clientIpHeader).toBe("");
    expect(good({ CLIENT_IP_HEADER: " X-Real-IP " }).clientIpHeader).toBe("X-Real-IP");
  });
});

describe("a configuration", () => {
  it("with nothing set is good, and unknown variables are ignored", () => {
    expect(good({ HOME: "/root", SHUTDOWN_TIMEOUT_S: "x", PORT: "nonsense" })).toEqual(good({}));
  });
});

describe("a group of deployments", () => {
  const token = "x".repeat(16);
  const group = (peers: string, id = "s0") => ({ RELAY_ID: id, RELAY_TOKEN: token, RELAY_PEERS: peers });

  it("is those listed, without this one, and a majority of all", () => {
    const list = "s0=wss://a.example,s1=ws://b.example:81/own, s2=tcp://10.0.0.3:20000";
    expect(good(group(list)).relay).toEqual({
      id: "s0",
      token,
      peers: [
        { id: "s1", url: "ws://b.example:81/own" },
        { id: "s2", url: "tcp://10.0.0.3:20000" },
      ],
      need: 2,
    });
    expect(good(group(list, "s1")).relay?.peers[0]).toEqual({ id: "s0", url: "wss://a.example/v1/godistlock/relay" });
    const five = "a=ws://a,b=ws://b,c=ws://c,d=ws://d";
    expect(good(group(five)).relay?.need).toBe(3);
  });

  it("is none without a list, or with only this one in it", () => {
    expect(good({ RELAY_ID: "s0", RELAY_TOKEN: token }).relay).toBeUndefined();
    expect(good(group("s0=ws://a")).relay).toBeUndefined();
  });

  it("needs an id and a token", () => {
    expect(names({ RELAY_PEERS: "s1=ws://b" })).toEqual(["RELAY_ID", "RELAY_TOKEN"]);
    for (const bad of ["x".repeat(15), "x".repeat(4_097), `${"x".repeat(16)} y`])
      expect(names({ ...group("s1=ws://b"), RELAY_TOKEN: bad })).toEqual(["RELAY_TOKEN"]);
    for (const id of ["a b", "x".repeat(65), "a=b"]) expect(names({ SERVER_ID: id })).toEqual(["SERVER_ID"]);
  });

  it.each([
    "s1",
    "s1=",
    "s1=http://b",
    "s1=tcp://b",
    "s1=tcp://b:1/x",
    "s1=ws://b,s1=ws://c",
    "s 1=ws://b",
    "s1=ws://user@b",
    "s1=ws://b?x",
    Array.from({ length: 10 }, (_, index) => `p${index}=ws://b`).join(),
  ])("is refused as %j", (list) => {
    expect(names(group(list))).toEqual(["RELAY_PEERS"]);
  });

  it("has a name for clients", () => {
    expect(good({}).serverId).toBe("holdfast");
    expect(good({ RELAY_ID: "s0" }).serverId).toBe("s0");
    expect(good({ RELAY_ID: "s0", SERVER_ID: "eu" }).serverId).toBe("eu");
  });
});

describe("where objects live", () => {
  it("is up to the platform when nothing is set", () => {
    expect(good({})).toMatchObject({ locationHints: [], jurisdiction: undefined });
    expect(good({ LOCATION_HINTS: " ", JURISDICTION: "" })).toMatchObject({
      locationHints: [],
      jurisdiction: undefined,
    });
  });

  it("follows the longest prefix that fits, whatever the order of the list", () => {
    const { locationHints } = good({ LOCATION_HINTS: " eu/=weur, =enam,eu/east/=eeur " });
    const at = (key: string) => locationOf(locationHints, key);
    expect([at("eu/orders"), at("eu/east/1"), at("eu"), at("")]).toEqual([...["weur", "eeur", "enam", "enam"]]);
    expect(locationOf(good({ LOCATION_HINTS: "eu/=weur" }).locationHints, "us/1")).toBeUndefined();
  });

  it.each(LOCATIONS)("may be near %s", (hint) => {
    expect(good({ LOCATION_HINTS: `x=${hint}` }).locationHints).toEqual([{ prefix: "x", hint }]);
  });

  it.each([
    "weur",
    "eu/",
    "eu/=",
    "eu/=paris",
    "eu/=WEUR",
    "eu/=weur,eu/=eeur",
    "=weur,=enam",
    "eu/=weur;us/=enam",
    "a b=weur",
  ])("is refused as %j", (list) => expect(names({ LOCATION_HINTS: list })).toEqual(["LOCATION_HINTS"]));

  it("may be bound to a jurisdiction, by the platform's name for it", () => {
    for (const jurisdiction of JURISDICTIONS) {
      expect(good({ JURISDICTION: ` ${jurisdiction} ` }).jurisdiction).toBe(jurisdiction);
    }
    for (const wrong of ["EU", "europe", "eu,fedramp", "0"]) {
      expect(bad({ JURISDICTION: wrong })).toEqual([{ name: "JURISDICTION", rule: "must be one of eu, fedramp, us" }]);
    }
  });
});
