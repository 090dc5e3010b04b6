// Asynchronous methods that wait for known things at known lines, and some that run.
//
//   --orders N    how many orders wait, each of which is two methods (default 50)
//   --burners N   how many chains of methods use the processor, one after another on the thread pool (default 0)
//
// After `ready` it reads lines: `more N` begins N more orders and answers `begun`; anything else, or the end of the input, makes it
// print what it knows and leave.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    static class Asyncer
    {
        const int Sleepers = 30;
        const int Entrants = 20;
        const int Gatherers = 10;
        const int Sharers = 15;
        const int Loops = 20;

        static readonly List<Task> Pending = new List<Task>();
        static readonly List<Task<string>> Done = new List<Task<string>>();
        static readonly TaskCompletionSource<int> Shared = new TaskCompletionSource<int>();
        static readonly SemaphoreSlim Gate = new SemaphoreSlim(0);
        static readonly Dictionary<string, int> Lines = new Dictionary<string, int>();
        static ulong sink;
        static volatile bool over;

        static int Main(string[] args)
        {
            int orders = Number(args, "--orders", 50), burners = Number(args, "--burners", 0);
            Begin(orders);
            for (int i = 0; i < Sleepers; i++)
            {
                Pending.Add(Sleep());
            }
            for (int i = 0; i < Entrants; i++)
            {
                Pending.Add(Enter());
            }
            for (int i = 0; i < Gatherers; i++)
            {
                Pending.Add(Gather());
            }
            for (int i = 0; i < Loops; i++)
            {
                Pending.Add(Loop());
            }
            Task<int> common = Common();
            for (int i = 0; i < Sharers; i++)
            {
                Pending.Add(Share(common));
            }
            for (int i = 0; i < 25; i++)
            {
                Done.Add(Finish(i));
            }
            Task.WaitAll(Done.ToArray());
            for (int i = 0; i < burners; i++)
            {
                Pending.Add(Handle());
            }
            Console.WriteLine("ready");
            for (string line = Console.ReadLine(); line != null && line.StartsWith("more "); line = Console.ReadLine())
            {
                int more = int.Parse(line.Substring(5), CultureInfo.InvariantCulture);
                Begin(more);
                orders += more;
                Console.WriteLine("begun");
            }
            over = true;
            Console.WriteLine(Truth(orders));
            return 0;
        }

        static void Begin(int orders)
        {
            for (int i = 0; i < orders; i++)
            {
                Pending.Add(Order());
            }
        }

        // An order waits in its second wait, so that its state is not the first.
        static async Task<int> Order()
        {
            await Task.CompletedTask;
            int line = Here("Order"); return line + await Ask();
        }

        static async Task<int> Ask()
        {
            var never = new TaskCompletionSource<int>();
            int line = Here("Ask"); return line + await never.Task.ConfigureAwait(false);
        }

        static async Task Sleep()
        {
            Here("Sleep"); await Task.Delay(TimeSpan.FromHours(1));
        }

        // Waits for a new delay each time: the method is old, its wait is not.
        static async Task Loop()
        {
            while (!over)
            {
                await Task.Delay(10);
            }
        }

        static async Task Enter()
        {
            Here("Enter"); await Gate.WaitAsync();
        }

        // Two parts for each: one that waits for ever, and one that is done.
        static async Task<int> Gather()
        {
            Here("Gather"); int[] parts = await Task.WhenAll(Part(), Part(), Task.FromResult(1));
            return parts.Length;
        }

        static async Task<int> Part()
        {
            Here("Part"); return await Shared.Task;
        }

        static async Task<int> Share(Task<int> common)
        {
            Here("Share"); return await common;
        }

        static async Task<int> Common()
        {
            Here("Common"); return await Shared.Task;
        }

        static async Task<string> Finish(int number)
        {
            await Task.Yield();
            return "finished " + number;
        }

        // Resumed by the thread pool again and again: who awaits it is on no thread's stack.
        static async Task Burn()
        {
            while (!over)
            {
                await Task.Yield();
                Spin();
            }
        }

        static async Task Step()
        {
            Here("Step"); await Burn();
        }

        static async Task Handle()
        {
            Here("Handle"); await Step();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Spin()
        {
            var clock = Stopwatch.StartNew();
            ulong hash = 14695981039346656037;
            while (clock.ElapsedMilliseconds < 5)
            {
                for (uint i = 0; i < 10000; i++)
                {
                    hash = (hash ^ i) * 1099511628211;
                }
            }
            sink = hash;
        }

        static int Here(string method, [CallerLineNumber] int line = 0)
        {
            lock (Lines)
            {
                Lines[method] = line;
            }
            return 0;
        }

        static string Truth(int orders)
        {
            var stacks = new List<string>
            {
                Stack(orders, "completion-source", "Ask", "Order"), Stack(Sleepers, "delay", "Sleep"),
                Stack(Entrants, "semaphore", "Enter"), Stack(2 * Gatherers, "completion-source", "Part", "Task.WhenAll", "Gather"),
                Stack(Sharers, "completion-source", "Common", "Share"),
            };
            // Each gatherer has two parts; the common one is shared.
            int pending = 2 * orders + Sleepers + Entrants + Loops + 3 * Gatherers + Sharers + 1;
            return string.Format(
                CultureInfo.InvariantCulture, "{{\"sample\":\"asyncer\",\"pending\":{0},\"stacks\":[{1}]}}", pending,
                string.Join(",", stacks));
        }

        static string Stack(int count, string cause, params string[] methods)
        {
            var frames = methods.Select(method => Lines.TryGetValue(method, out int line)
                ? string.Format(CultureInfo.InvariantCulture, "{{\"method\":\"Clrscope.Samples.Asyncer.{0}\",\"line\":{1}}}", method, line)
                : string.Format(CultureInfo.InvariantCulture, "{{\"method\":\"{0}\",\"line\":null}}", method));
            return string.Format(
                CultureInfo.InvariantCulture, "{{\"count\":{0},\"cause\":\"{1}\",\"frames\":[{2}]}}", count, cause,
                string.Join(",", frames));
        }

        static int Number(string[] args, string name, int fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? int.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
