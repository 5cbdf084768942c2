import { type Child, useState } from "hono/jsx/dom";

const SAID_FOR_MS = 2_000;

interface CopyableProps {
  readonly title: string;
  readonly text: string;
  readonly children: Child;
}

/** Text to be pasted elsewhere. Browsers give the clipboard to pages over https and on this machine only. */
export function Copyable({ title, text, children }: CopyableProps) {
  const [outcome, setOutcome] = useState<"copied" | "failed" | undefined>(undefined);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome("copied");
    } catch {
      setOutcome("failed");
    }
    setTimeout(() => setOutcome(undefined), SAID_FOR_MS);
  };
  return (
    <div class="copyable">
      <h3>{title}</h3>
      <p class="note">{children}</p>
      <pre>
        <code>{text}</code>
      </pre>
      {"clipboard" in navigator && (
        <button type="button" onClick={copy} aria-label={`Copy: ${title}`}>
          {outcome === "copied" ? "Copied" : outcome === "failed" ? "Not allowed" : "Copy"}
        </button>
      )}
    </div>
  );
}
