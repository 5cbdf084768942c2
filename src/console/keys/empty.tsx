import { serviceAddress } from "../shared/address.ts";
import { page } from "../shared/page-settings.ts";
import { hrefOf } from "../shared/route.ts";
import { clientProgram, restCommand, wireCommand } from "./commands.ts";
import { Copyable } from "./copyable.tsx";

/** Shown while there are no keys: how to take the first lock. */
export function EmptyService() {
  const place = { origin: serviceAddress(), hostname: location.hostname, needsToken: page.needsToken };
  return (
    <section class="panel empty" aria-labelledby="empty-title">
      <h2 id="empty-title">Nobody holds anything</h2>
      <p>
        A key appears here as soon as somebody takes it, and goes when it has not been used for a while. Take one in{" "}
        <a href={hrefOf.playground}>the playground</a>, or with one of these:
      </p>
      <Copyable title="HTTP" text={restCommand(place)}>
        Opens a session and takes the lock <code>hello</code> for one lease.
      </Copyable>
      <Copyable title="Wire protocol" text={wireCommand(place)}>
        The same over TCP, for as long as the connection stands. 6388 is the default port; a deployed Worker is reached
        through <code>holdfast bridge</code>.
      </Copyable>
      <Copyable title="Client" text={clientProgram(place)}>
        In Node or a browser; the client renews the lease by itself.
      </Copyable>
      {page.needsToken && (
        <p class="note">
          <code>TOKEN</code> stands for the token you signed in with.
        </p>
      )}
    </section>
  );
}
