// Sends a file with progress, which `fetch` does not report.

import { address, Problem } from "./client";
import type { Session } from "./types";

/** What a name of a session may have: as the server says. */
function nameOf(file: File): string {
  const endings = /(\.(clrscope|nettrace|gcdump|folded|speedscope|json|pb|gz|txt))+$/i;
  const plain = file.name.replace(endings, "").replace(/[^\p{L}\p{N}._-]/gu, "_");
  return plain.replace(/^[.-]+/, "").slice(0, 200);
}

/** Adds a session file, or one of another tool; `progress` gets shares from 0 to 1. */
export function upload(
  file: File,
  progress: (share: number) => void,
  signal: AbortSignal,
): Promise<Session> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address("sessions", { name: nameOf(file) }));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      try {
        const answer = JSON.parse(request.responseText) as Session & {
          cause: string;
          next: string;
        };
        if (request.status < 300) resolve(answer);
        else reject(new Problem(request.status, answer.cause, answer.next));
      } catch {
        const reason = `The server answered with status ${request.status}.`;
        reject(new Problem(request.status, reason, "Try again."));
      }
    });
    const lost = () =>
      reject(new Problem(0, "The connection was lost.", "Send the file again."));
    request.addEventListener("error", lost);
    request.addEventListener("abort", lost);
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
