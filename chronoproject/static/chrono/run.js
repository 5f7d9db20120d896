// A run's page: opens the logs of older attempts on demand, and follows the run while it lives.
"use strict";

const EVERY_MS = 2000;
const SHOWN_CHARS = 512 * 1024;

function append(log, text) {
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  log.textContent = (log.textContent + text).slice(-SHOWN_CHARS);
  if (atEnd) log.scrollTop = log.scrollHeight;
}

async function loadTail(details) {
  if (!details.open || details.dataset.loaded) return;
  details.dataset.loaded = "1";
  const log = details.querySelector(".ch-log");
  const answer = await fetch(details.dataset.tailUrl, { credentials: "same-origin" });
  const text = await answer.text();
  log.textContent = answer.ok ? text || "No output." : `The log could not be read (${answer.status}).`;
  log.scrollTop = log.scrollHeight;
}

async function follow(page) {
  const log = document.getElementById("ch-log");
  const query = log ? `?attempt=${page.dataset.attempt}&offset=${log.dataset.end}` : "";
  const answer = await fetch(page.dataset.statusUrl + query, { credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw new Error(`status ${answer.status}`);
  const state = await answer.json();
  if (log && state.text) {
    append(log, state.text);
    log.dataset.end = state.end;
    document.getElementById("ch-no-log")?.remove();
  }
  const progress = document.getElementById("ch-progress");
  if (progress) progress.textContent = state.progress;
  const moved = state.status !== page.dataset.status || String(state.attempt) !== page.dataset.attempt;
  if (moved) location.reload();
  return !moved && state.isLive;
}

async function followForEver(page) {
  let wait = EVERY_MS;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (document.hidden) continue;
    try {
      if (!(await follow(page))) return;
      wait = EVERY_MS;
    } catch (error) {
      wait = Math.min(wait * 2, 30000);
      const note = document.getElementById("ch-live");
      if (note) note.textContent = "the server does not answer; trying again";
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const details of document.querySelectorAll(".ch-attempt")) {
    details.addEventListener("toggle", () => loadTail(details));
  }
  const log = document.getElementById("ch-log");
  if (log) log.scrollTop = log.scrollHeight;
  const page = document.querySelector("[data-status-url]");
  if (page && page.dataset.live === "1") followForEver(page);
});
