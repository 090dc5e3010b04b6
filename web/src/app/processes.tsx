import { api } from "../data/client";
import { useQuery } from "../data/query";
import { visible } from "../data/format";
import { Failure, Head, Waiting } from "./parts";

/** The .NET processes of this machine. */
export function Processes() {
  const { data, problem, reload } = useQuery("processes", (signal) => api.processes(signal), 2000);
  return (
    <>
      <Head title="Processes" />
      {problem && <Failure problem={problem} retry={reload} />}
      {!data && !problem && <Waiting what="Looking for .NET processes" />}
      <ul>
        {data?.map((process) => (
          <li key={process.pid}>
            {process.pid} {visible(process.name)}
          </li>
        ))}
      </ul>
    </>
  );
}
