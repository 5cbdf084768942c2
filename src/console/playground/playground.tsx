import { useLayoutEffect, useRef, useState } from "hono/jsx/dom";
import type { Service } from "../shared/service.ts";
import { KeyPanel } from "./panels/key-panel.tsx";
import { LogPanel } from "./panels/log-panel.tsx";
import { PlayerCard } from "./panels/player-card.tsx";
import { ResourcePanel } from "./panels/resource-panel.tsx";
import { StoryPanel } from "./panels/story-panel.tsx";
import { TermsForm } from "./panels/terms-form.tsx";
import { hintOf } from "./state/hint.ts";
import { Scene } from "./state/scene.ts";

/** Several real clients side by side, to try out. */
export function Playground({ service }: { readonly service: Service }) {
  const [round, setRound] = useState(1);
  const scene = useScene(service.credential, round);
  return (
    <div class="playground">
      <div class="top">
        <h1>Playground</h1>
        <p class="note">
          Each card below is a real client with a connection of its own. They share one key, and the service decides.
        </p>
      </div>
      {scene && <Contents key={round} scene={scene} onRestart={() => setRound(round + 1)} />}
    </div>
  );
}

function Contents({ scene, onRestart }: { readonly scene: Scene; readonly onRestart: () => void }) {
  const addButton = useRef<HTMLButtonElement>(null);
  const hint = hintOf(scene.story, scene.players, scene.resource);
  const dismiss = (player: Scene["players"][number]) => {
    scene.dismiss(player);
    addButton.current?.focus();
  };
  return (
    <>
      <StoryPanel story={scene.story} onRestart={onRestart} />
      <TermsForm scene={scene} addButton={addButton} />
      <div class="service-side">
        <KeyPanel scene={scene} />
        <ResourcePanel scene={scene} />
      </div>
      <div class="players">
        {scene.players.map((player) => (
          <PlayerCard key={player.name} scene={scene} player={player} hint={hint} onClose={() => dismiss(player)} />
        ))}
        {scene.players.length === 0 && <p class="note">Everybody has left. Add a client.</p>}
      </div>
      <LogPanel scene={scene} />
    </>
  );
}

/**
 * A scene while it is shown. Created in a layout effect, not in a later frame: otherwise a page that is left before that
 * frame would never close its connections.
 */
function useScene(token: string | undefined, round: number): Scene | undefined {
  const [, draw] = useState(0);
  const scene = useRef<Scene | undefined>(undefined);
  useLayoutEffect(() => {
    const made = new Scene({ token, changed: () => draw((times) => times + 1) });
    scene.current = made;
    draw((times) => times + 1);
    return () => {
      scene.current = undefined;
      void made.close();
    };
  }, [token, round]);
  return scene.current;
}
