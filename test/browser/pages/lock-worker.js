/**
 * Takes the lock that its own address names, and writes what the lock protects ten times a second for as long as it
 * believes in it. Looks more often than that, and keeps when it last believed. Dedicated or shared: it needs nothing of any page.
 */
import { connect } from "/client.js";

const note = (text) => fetch("/notes", { method: "POST", body: text });
const asked = new URLSearchParams(location.search);
const lock = await connect(asked.get("service"), { label: "worker" }).acquire(asked.get("key"), {
  lease: Number(asked.get("lease")),
});
lock.lost.then(({ reason }) => note(`lost: ${reason}`));
setInterval(() => lock.isHeld && note(lock.fence), 100);
let believedAt = 0;
setInterval(() => {
  if (lock.isHeld) believedAt = Date.now();
}, 1);
lock.lost.then(() => note(`believed until ${believedAt}`));
