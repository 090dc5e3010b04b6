// Looks up hosts of which the program knows how often, how often in vain, and how long that took.
// No name leaves the machine: `localhost` is in /etc/hosts, and the other one cannot be a name.
//
//   --times N     lookups of each kind (default 50)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or
//                 its end before leaving
//
// The kinds differ by how the host is written:
//
//   localhost     one after another, on the main thread
//   Localhost     one after another, asynchronous: they end on other threads
//   LOCALHOST     asynchronous and several at a time, each in an asynchronous method of its own
//   LocalHost     asynchronous and several at a time, all begun by one method
//   localHost     three, asynchronous, while all threads of the pool sleep for 200 ms
//   xxx…          has more than 63 letters in a row, and so fails; half of them asynchronous
//
// Truth: {"sample":"dns","hosts":{HOST:{"lookups":N,"failed":N,"took_ns":T,"longest_ns":T},…}}, where
// times are those from the call until the answer.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Resolutions
    {
        const int AtATime = 5;
        static readonly string TooLong = new string('x', 64) + ".invalid";

        sealed class Count
        {
            public long Lookups, Failed, Ticks, Longest;

            public void Add(long began, bool failed)
            {
                long took = Stopwatch.GetTimestamp() - began;
                lock (this)
                {
                    Lookups++;
                    Failed += failed ? 1 : 0;
                    Ticks += took;
                    Longest = Math.Max(Longest, took);
                }
            }
        }

        static readonly Dictionary<string, Count> counts = new Dictionary<string, Count>();

        static int Main(string[] args)
        {
            int at = Array.IndexOf(args, "--times");
            int times = at >= 0 ? int.Parse(args[at + 1], CultureInfo.InvariantCulture) : 50;
            bool gate = args.Contains("--gate");
            // Everything is compiled, and there are threads.
            Work(2 * AtATime).Wait();
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            Work(times).Wait();
            Starve(3);
            Console.WriteLine(Truth());
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        static async Task Work(int times)
        {
            foreach (string host in new[] { "localhost", "Localhost", "LOCALHOST", "LocalHost", "localHost", TooLong })
            {
                counts[host] = new Count();
            }
            for (int i = 0; i < times; i++)
            {
                Now("localhost");
                await Later("Localhost");
                if (i % 2 == 0)
                {
                    Now(TooLong);
                }
                else
                {
                    await Later(TooLong);
                }
            }
            for (int i = 0; i < times / AtATime; i++)
            {
                await Task.WhenAll(Enumerable.Range(0, AtATime).Select(_ => Later("LOCALHOST")));
                long began = Stopwatch.GetTimestamp();
                var all = Enumerable.Range(0, AtATime).Select(_ => Dns.GetHostAddressesAsync("LocalHost")).ToArray();
                await Task.WhenAll(all);
                foreach (Task one in all)
                {
                    counts["LocalHost"].Add(began, false);
                }
            }
        }

        /// Lookups that wait for a thread of the pool.
        static void Starve(int times)
        {
            int threads = Environment.ProcessorCount;
            ThreadPool.SetMinThreads(threads, threads);
            ThreadPool.SetMaxThreads(threads, threads);
            for (int i = 0; i < times; i++)
            {
                using (var begun = new CountdownEvent(threads))
                {
                    for (int thread = 0; thread < threads; thread++)
                    {
                        ThreadPool.QueueUserWorkItem(_ =>
                        {
                            begun.Signal();
                            Thread.Sleep(200);
                        });
                    }
                    begun.Wait();
                    Later("localHost").Wait();
                }
            }
        }

        static void Now(string host)
        {
            long began = Stopwatch.GetTimestamp();
            bool failed = false;
            try
            {
                Dns.GetHostAddresses(host);
            }
            catch (SocketException)
            {
                failed = true;
            }
            counts[host].Add(began, failed);
        }

        static async Task Later(string host)
        {
            long began = Stopwatch.GetTimestamp();
            bool failed = false;
            try
            {
                await Dns.GetHostAddressesAsync(host);
            }
            catch (SocketException)
            {
                failed = true;
            }
            counts[host].Add(began, failed);
        }

        static string Truth()
        {
            IEnumerable<string> hosts = counts.Select(of => string.Format(
                CultureInfo.InvariantCulture,
                "\"{0}\":{{\"lookups\":{1},\"failed\":{2},\"took_ns\":{3},\"longest_ns\":{4}}}",
                of.Key, of.Value.Lookups, of.Value.Failed,
                Nanoseconds(of.Value.Ticks), Nanoseconds(of.Value.Longest)));
            return "{\"sample\":\"dns\",\"hosts\":{" + string.Join(",", hosts) + "}}";
        }

        static long Nanoseconds(long ticks) => (long)(ticks * (1e9 / Stopwatch.Frequency));
    }
}
