import { api } from "../data/client";
import { useQuery } from "../data/query";
import { DocumentView } from "../views/document";
import { Explore } from "../views/explore";
import { Failure, Head, Waiting } from "./parts";

/** What a session says. */
export function SessionPage({ id }: { id: string }) {
  const session = useQuery(`session ${id}`, (signal) => api.session(id, signal));
  const document = useQuery(`document ${id}`, (signal) => api.document(id, {}, signal));
  const problem = session.problem ?? document.problem;
  return (
    <>
      <Head title={id} />
      {problem && <Failure problem={problem} retry={document.reload} />}
      {!document.data && !problem && <Waiting what="Reading the session" />}
      {session.data && <Explore session={session.data} />}
      {document.data && <DocumentView document={document.data} />}
    </>
  );
}
