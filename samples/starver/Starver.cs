// Work for the thread pool that starves it, or that does the same and does not.
//
//   --sync-over-async N   items in each second, each of which blocks its thread until an asynchronous operation is done
//   --sleep N             items in each second, each of which sleeps
//   --healthy N           items in each second, each of which awaits the operation
//   --busy              items that do nothing from four threads, each a millisecond after its last one is done: the pool runs out of work each time
//   --milliseconds N      how long the operation takes (default 500)
//   --seconds N           for how long items come (default 10)
//   --gate                wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// The program looks at the pool ten times in a second, on a thread of its own, and tells what it has seen.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public static class Starver
    {
        static int milliseconds;
        static long queued;
        static long done;
        static long blocked;

        static int Main(string[] args)
        {
            milliseconds = (int)Number(args, "--milliseconds", 500);
            double seconds = Number(args, "--seconds", 10);
            double blocking = Number(args, "--sync-over-async", 0);
            double sleeping = Number(args, "--sleep", 0);
            double awaiting = Number(args, "--healthy", 0);
            bool busy = args.Contains("--busy");
            bool gate = args.Contains("--gate");
            // The methods are compiled, and the pool has begun.
            Block();
            Sleep();
            Await().Wait();
            queued = done = blocked = 0;
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            long completed = ThreadPool.CompletedWorkItemCount;
            long longest = 0, sum = 0, looks = 0;
            int most = 0;
            var clock = Stopwatch.StartNew();
            for (int i = 0; busy && i < 4; i++)
            {
                new Thread(() => Ping(clock, seconds)) { IsBackground = true }.Start();
            }
            while (clock.Elapsed.TotalSeconds < seconds)
            {
                double rate = blocking + sleeping + awaiting;
                while (queued < rate * clock.Elapsed.TotalSeconds)
                {
                    if (blocking > 0)
                    {
                        ThreadPool.UnsafeQueueUserWorkItem(_ => Block(), null);
                    }
                    else if (sleeping > 0)
                    {
                        ThreadPool.UnsafeQueueUserWorkItem(_ => Sleep(), null);
                    }
                    else
                    {
                        ThreadPool.UnsafeQueueUserWorkItem(_ => Await(), null);
                    }
                    queued++;
                }
                Thread.Sleep(100);
                long length = ThreadPool.PendingWorkItemCount;
                longest = Math.Max(longest, length);
                sum += length;
                looks++;
                most = Math.Max(most, ThreadPool.ThreadCount);
            }
            completed = ThreadPool.CompletedWorkItemCount - completed;
            int minimum, maximum, io;
            ThreadPool.GetMinThreads(out minimum, out io);
            ThreadPool.GetMaxThreads(out maximum, out io);
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"starver\",\"seconds\":{0:F3},\"queued\":{1},\"done\":{2},\"blocked_ns\":{3},\"blocked_in\":\"{4}\"," +
                "\"longest_queue\":{5},\"mean_queue\":{6:F1},\"most_threads\":{7},\"completed\":{8},\"min_threads\":{9},\"max_threads\":{10}}}",
                clock.Elapsed.TotalSeconds, queued, Interlocked.Read(ref done), Interlocked.Read(ref blocked) * (1000000000 / Stopwatch.Frequency),
                sleeping > 0 ? "Sleep" : "Block", longest, (double)sum / looks, most, completed, minimum, maximum));
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        // Items that do nothing, each a moment after the one before is done: longer than a worker spins before it sleeps.
        static void Ping(Stopwatch clock, double seconds)
        {
            int state = 0;
            while (clock.Elapsed.TotalSeconds < seconds)
            {
                Volatile.Write(ref state, 0);
                Interlocked.Increment(ref queued);
                ThreadPool.UnsafeQueueUserWorkItem(_ => { Interlocked.Increment(ref done); Volatile.Write(ref state, 1); }, null);
                while (Volatile.Read(ref state) == 0)
                {
                    Thread.Sleep(0);
                }
                Thread.Sleep(1);
            }
        }

        static async Task<int> Operation()
        {
            await Task.Delay(milliseconds).ConfigureAwait(false);
            return 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Block()
        {
            long before = Stopwatch.GetTimestamp();
            int result = Operation().Result;
            Interlocked.Add(ref blocked, Stopwatch.GetTimestamp() - before);
            Interlocked.Add(ref done, result);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Sleep()
        {
            long before = Stopwatch.GetTimestamp();
            Thread.Sleep(milliseconds);
            Interlocked.Add(ref blocked, Stopwatch.GetTimestamp() - before);
            Interlocked.Increment(ref done);
        }

        static async Task Await()
        {
            int result = await Operation().ConfigureAwait(false);
            Interlocked.Add(ref done, result);
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
