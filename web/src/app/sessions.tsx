import { api } from "../data/client";
import { useQuery } from "../data/query";
import { Failure, Head, Waiting } from "./parts";
import { link } from "./router";

/** The sessions that the server keeps. */
export function Sessions() {
  const { data, problem, reload } = useQuery("sessions", (signal) => api.sessions(signal));
  return (
    <>
      <Head title="Sessions" />
      {problem && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Reading the list of sessions" />}
      <ul>
        {data?.map((session) => (
          <li key={session.id}>
            <a href={link(["sessions", session.id])}>{session.id}</a>
          </li>
        ))}
      </ul>
    </>
  );
}
