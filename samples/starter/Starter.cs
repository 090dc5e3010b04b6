// Starts other programs, as the command line of the SDK does: one after the other, each until it has ended. The words of one
// command end with `--then`; the exit code is the last one's that is not 0.
//
//   starter PROGRAM ARGUMENT... --then PROGRAM ARGUMENT...
//
// Words before the first `--start` are left out, so that the line can begin as the command line of a tool does.
using System;
using System.Collections.Generic;
using System.Diagnostics;

namespace Clrscope.Samples
{
    public static class Starter
    {
        static int Main(string[] args)
        {
            int begin = Array.IndexOf(args, "--start") + 1;
            var words = new List<string>();
            int code = 0;
            for (int at = begin; at <= args.Length; at++)
            {
                if (at < args.Length && args[at] != "--then")
                {
                    words.Add(args[at]);
                    continue;
                }
                if (words.Count > 0)
                {
                    int ended = Run(words);
                    code = ended == 0 ? code : ended;
                }
                words.Clear();
            }
            return code;
        }

        static int Run(List<string> words)
        {
            var start = new ProcessStartInfo(words[0]) { UseShellExecute = false };
            for (int at = 1; at < words.Count; at++) start.ArgumentList.Add(words[at]);
            using (Process process = Process.Start(start))
            {
                process.WaitForExit();
                return process.ExitCode;
            }
        }
    }
}
