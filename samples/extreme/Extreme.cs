// A process at the edge of what others are: very many threads and tasks, endless chains, monstrous names, broken texts,
// assemblies that come and go, garbage by the gigabyte.
//
//   --threads N     threads that wait for ever
//   --tasks N       asynchronous methods that wait for ever
//   --chain N       links of a list, of which each also refers to the one before, and the last to the first
//   --levels N      a generic type in itself so many times, twice in each level: its name doubles each time
//   --surrogates N  strings with halves of surrogate pairs, zeros and control characters, each text N times
//   --collectible   a thread that loads assemblies into contexts, uses them and unloads them again, all the time
//   --churn N       threads that allocate garbage as fast as they can, all the time
//   --hold N        objects of 32 bytes in a list
//   --fans N        arrays of 1000 references each, all to the same object
//
// After `ready` it waits for a line or the end of the input, then prints what it knows and leaves.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    /// Part of the ring: 40 bytes.
    sealed class Ring
    {
        public Ring Next;
        public Ring Before;
        public long Number;
    }

    /// 32 bytes.
    sealed class Kept
    {
        public long Number;
        public long Twice;
    }

    /// One that can be put into itself: 24 bytes.
    sealed class Pair<TOne, TOther>
    {
        public object Nothing;
    }

    /// What an assembly that is unloaded has been used for.
    public sealed class Visitor
    {
        public object[] Luggage = new object[100];
    }

    public static class Extreme
    {
        static readonly ManualResetEvent nobody = new ManualResetEvent(false);
        static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
        static readonly List<object> monsters = new List<object>();
        static readonly List<string> texts = new List<string>();
        static readonly List<Kept> kept = new List<Kept>();
        static object[][] fans;
        static Ring ring;
        static Task[] waiting;
        static long churned;
        static int loaded;
        static volatile bool over;

        static int Main(string[] args)
        {
            int threads = Number(args, "--threads");
            int tasks = Number(args, "--tasks");
            int links = Number(args, "--chain");
            int levels = Number(args, "--levels");
            int copies = Number(args, "--surrogates");
            int hold = Number(args, "--hold");
            Close(links);
            Nest(levels);
            Break(copies);
            for (int i = 0; i < hold; i++)
            {
                kept.Add(new Kept { Number = i });
            }
            var same = new object();
            fans = Enumerable.Range(0, Number(args, "--fans")).Select(_ => Enumerable.Repeat(same, 1000).ToArray()).ToArray();
            waiting = Enumerable.Range(0, tasks).Select(_ => Wait()).ToArray();
            for (int i = 0; i < threads; i++)
            {
                // Thin ones: thousands of them fit into little memory.
                new Thread(() => nobody.WaitOne(), 128 * 1024) { IsBackground = true }.Start();
            }
            if (args.Contains("--collectible"))
            {
                new Thread(ComeAndGo) { IsBackground = true }.Start();
            }
            for (int i = 0; i < Number(args, "--churn"); i++)
            {
                new Thread(Churn) { IsBackground = true }.Start();
            }
            var clock = Stopwatch.StartNew();
            Console.WriteLine("ready");
            Console.ReadLine();
            over = true;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture,
                "{{\"sample\":\"extreme\",\"threads\":{0},\"tasks\":{1},\"links\":{2},\"levels\":{3},\"copies\":{4},\"kept\":{5}," +
                    "\"loaded\":{6},\"churned\":{7},\"seconds\":{8:F3},\"collections\":[{9},{10},{11}]}}",
                threads, waiting.Count(task => !task.IsCompleted), links, monsters.Count, copies, kept.Count, loaded,
                Interlocked.Read(ref churned), clock.Elapsed.TotalSeconds, GC.CollectionCount(0), GC.CollectionCount(1),
                GC.CollectionCount(2)));
            return 0;
        }

        static void Close(int links)
        {
            Ring last = null;
            for (int i = 0; i < links; i++)
            {
                var link = new Ring { Before = ring, Number = i };
                if (ring != null)
                {
                    ring.Next = link;
                }
                last = last ?? link;
                ring = link;
            }
            if (ring != null)
            {
                ring.Next = last;
                last.Before = ring;
            }
        }

        static void Nest(int levels)
        {
            Type type = typeof(Extreme).Assembly.GetType("Clrscope.Samples.Kept");
            for (int i = 0; i < levels; i++)
            {
                type = typeof(Pair<,>).MakeGenericType(type, type);
                monsters.Add(Activator.CreateInstance(type));
            }
        }

        static void Break(int copies)
        {
            // Halves alone, the wrong way round, at the very end, and where a text is cut after 80 letters.
            string[] broken =
            {
                "\ud83d", "\ude00", "\ude00\ud83d", "high \ud83d, low \ude00", "zero \0, bell \a, escape \u001b[31m, del \u007f",
                "\"quoted\\\" </script>", new string('x', 79) + "\ud83d\ude00", new string('\udfff', 200), "\ufeff\ufffe\uffff"
            };
            for (int i = 0; i < copies; i++)
            {
                texts.AddRange(broken.Select(text => new string(text.ToCharArray())));
            }
        }

        static async Task<int> Wait()
        {
            return await never.Task.ConfigureAwait(false) + 1;
        }

        static void ComeAndGo()
        {
            byte[] own = File.ReadAllBytes(typeof(Extreme).Assembly.Location);
            while (!over)
            {
                Visit(own);
                loaded++;
                if (loaded % 5 == 0)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
                Thread.Sleep(1);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Visit(byte[] own)
        {
            var context = new AssemblyLoadContext("visit-" + loaded, true);
            Assembly guest = context.LoadFromStream(new MemoryStream(own));
            object visitor = Activator.CreateInstance(guest.GetType("Clrscope.Samples.Visitor"));
            visitor.ToString();
            context.Unload();
        }

        static void Churn()
        {
            object[] some = new object[16];
            for (long i = 0; !over; i++)
            {
                some[i & 15] = new byte[1000];
                if ((i & 1023) == 0)
                {
                    Interlocked.Add(ref churned, 1024 * 1024);
                }
            }
            GC.KeepAlive(some);
        }

        static int Number(string[] args, string name)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? int.Parse(args[at + 1], CultureInfo.InvariantCulture) : 0;
        }
    }
}
