// What can be done with a session that is kept: rename, note, download and delete it.

import { useState } from "preact/hooks";
import { api } from "../data/client";
import { visible } from "../data/format";
import { useQuery } from "../data/query";
import type { Session } from "../data/types";
import { Dialog, Failure, Field, useAction, Waiting } from "./parts";

/** All formats of a session. */
export function DownloadDialog({ id, close }: { id: string; close: () => void }) {
  const { data, problem, reload } = useQuery("formats", (signal) => api.formats(signal));
  return (
    <Dialog title={`Download ${visible(id)}`} close={close}>
      {problem && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Reading the list of formats" />}
      <ul class="formats">
        <li>
          <a href={api.fileAddress(id)} download={`${id}.clrscope`}>
            <b>Session file</b>
          </a>{" "}
          <span class="weak">for clrscope itself: all that was recorded</span>
        </li>
        {data?.map((format) => (
          <li key={format.id}>
            <a href={api.reportAddress(id, format.id)} download={`${id}.${format.extension}`}>
              <b>{format.id}</b>
            </a>{" "}
            <span class="weak">{format.summary}</span>
          </li>
        ))}
      </ul>
      <form method="dialog" class="tools">
        <button class="plain">Close</button>
      </form>
    </Dialog>
  );
}

/** Name and note of a session. `changed` gets the session as it is afterwards. */
export function ChangeDialog(props: {
  session: Session;
  close: () => void;
  changed: (session: Session) => void;
}) {
  const { session, close, changed } = props;
  const [name, setName] = useState(session.id);
  const [note, setNote] = useState(session.note ?? "");
  const change = useAction(async () => {
    const renamed = name === session.id ? {} : { name };
    const next = await api.changeSession(session.id, { ...renamed, note });
    close();
    changed(next);
  });
  return (
    <Dialog title="Name and note" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.run();
        }}
      >
        <Field label="Name" hint="Letters, digits, dots, dashes and underscores">
          <input
            value={name}
            required
            maxLength={200}
            spellcheck={false}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field label="Note">
          <textarea
            rows={4}
            maxLength={1000}
            value={note}
            onInput={(event) => setNote(event.currentTarget.value)}
          />
        </Field>
        {change.problem && <Failure problem={change.problem} />}
        <p class="tools">
          <button class="primary" type="submit" disabled={change.busy}>
            Save
          </button>
          <button class="plain" type="button" onClick={close}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  );
}

export function DeleteDialog(props: { id: string; close: () => void; deleted: () => void }) {
  const { id, close, deleted } = props;
  const remove = useAction(async () => {
    await api.deleteSession(id);
    close();
    deleted();
  });
  return (
    <Dialog title="Delete this session?" close={close}>
      <p class="mono">{visible(id)}</p>
      <p>Its file is deleted. This cannot be undone.</p>
      {remove.problem && <Failure problem={remove.problem} />}
      <p class="tools">
        <button class="danger" disabled={remove.busy} onClick={remove.run}>
          Delete
        </button>
        <button class="plain" onClick={close}>
          Keep it
        </button>
      </p>
    </Dialog>
  );
}
