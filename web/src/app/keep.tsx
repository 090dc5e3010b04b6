// What can be done with a session that is kept: download and delete it.

import { api } from "../data/client";
import { visible } from "../data/format";
import { useQuery } from "../data/query";
import { Dialog, Failure, useAction, Waiting } from "./parts";

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
