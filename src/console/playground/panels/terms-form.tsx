import { NAMES, type Scene } from "../state/scene.ts";

const LEASES = [5, 15, 60];
const SLOTS = ["1: a lock", "2: a semaphore", "3: a semaphore"];

interface TermsFormProps {
  readonly scene: Scene;
  readonly addButton: { current: HTMLButtonElement | null };
}

/** The key, limit and lease that clients ask for. */
export function TermsForm({ scene, addButton }: TermsFormProps) {
  const { terms, isEngaged, keyProblem, players } = scene;
  const useKey = (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    scene.useKey((form.elements.namedItem("key") as HTMLInputElement).value.trim());
  };
  const chosen = (event: Event) => Number((event.currentTarget as HTMLSelectElement).value);
  return (
    <form class="terms" onSubmit={useKey} onFocusOut={useKey} aria-label="What the clients ask for">
      <div>
        <label for="terms-key">Key</label>
        <input
          id="terms-key"
          name="key"
          class="mono"
          value={terms.key}
          readonly={isEngaged}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="terms-problem terms-note"
          aria-invalid={keyProblem ? "true" : "false"}
        />
      </div>
      <div>
        <label for="terms-lease">Lease</label>
        <select
          id="terms-lease"
          value={terms.leaseMs / 1000}
          onChange={(event) => scene.useLease(chosen(event) * 1000)}
        >
          {LEASES.map((seconds) => (
            <option key={seconds} value={seconds}>
              {seconds} s
            </option>
          ))}
        </select>
      </div>
      <div>
        <label for="terms-slots">Slots</label>
        <select
          id="terms-slots"
          value={terms.limit}
          disabled={isEngaged}
          onChange={(event) => scene.useLimit(chosen(event))}
        >
          {SLOTS.map((text, index) => (
            <option key={text} value={index + 1}>
              {text}
            </option>
          ))}
        </select>
      </div>
      <button
        type="button"
        ref={addButton}
        aria-disabled={players.length < NAMES.length ? "false" : "true"}
        onClick={() => scene.add()}
      >
        Add a client
      </button>
      <p class="problem" id="terms-problem" role="alert">
        {keyProblem ?? ""}
      </p>
      <p class="note" id="terms-note">
        {isEngaged ? "Key and slots can be changed when nobody holds or waits." : ""}
      </p>
    </form>
  );
}
