// Holds objects of known types, and knows how many, how large, and what holds them.
//
//   --count N     how many objects the static list holds (default 100000)
//   --chain N     how long the linked chain is (default 10000)
//   --churn N     how many threads allocate garbage as fast as they can, all the time (default 0)
//   --async N     how many asynchronous methods wait (default 100)
//   --die         after `ready`, end by Environment.FailFast half a second after the next line
//
// After `ready` it reads lines: `grow N` adds N objects of type Leaked to a static list and answers `grown`; anything else,
// or the end of the input, makes it print what it knows and leave.
//
// Sizes are those of 64-bit runtimes: a header and a method table pointer of 8 bytes each, then the fields, 24 bytes at least.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    /// One of the many in the static list: 40 bytes. `Text` refers to one of the strings, or to nothing.
    sealed class Held
    {
        public long Number;
        public object Text;
        public Held Twin;
    }

    /// Part of the chain: 32 bytes.
    sealed class Link
    {
        public Link Next;
        public long Number;
    }

    /// What the dictionary's values are: 24 bytes.
    sealed class Entry
    {
        public int Number;
    }

    /// Held by pinning handles only: 32 bytes, without references, as pinning demands.
    [StructLayout(LayoutKind.Sequential)]
    sealed class Pinned
    {
        public long First;
        public long Second;
    }

    /// Has a finalizer: 24 bytes.
    sealed class Finalizable
    {
        public long Number;

        ~Finalizable()
        {
            Heapster.Finalized++;
        }
    }

    /// Held by a ConditionalWeakTable only: 24 bytes.
    sealed class Attached
    {
        public long Number;
    }

    /// Held by a variable of the main thread only: 24 bytes.
    sealed class OnStack
    {
        public Attached Only;
    }

    /// One half of a cycle that nothing else holds: garbage.
    sealed class Garbage
    {
        public Garbage Other;
    }

    /// What `grow` adds: 32 bytes each.
    sealed class Leaked
    {
        public long Number;
        public byte[] Nothing;
    }

    /// Element of the large arrays.
    [StructLayout(LayoutKind.Sequential, Size = 1000)]
    struct Block
    {
        public long First;
    }

    public static class Heapster
    {
        /// Each text and how many strings say it.
        const string Duplicate = "the same text again and again, as configuration keys often are";
        const int Duplicates = 5000, Entries = 1000, Pins = 50, Finalizables = 200, Attachments = 30, Arrays = 5;

        public static int Finalized;
        static readonly List<Held> held = new List<Held>();
        static readonly List<Leaked> leaked = new List<Leaked>();
        static readonly Dictionary<int, Entry> entries = new Dictionary<int, Entry>();
        static readonly ConditionalWeakTable<Held, Attached> attached = new ConditionalWeakTable<Held, Attached>();
        static readonly List<GCHandle> pins = new List<GCHandle>();
        static Link chain;
        static string[] duplicates, unique;
        static Finalizable[] finalizables;
        static Block[][] arrays;
        static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
        static Task[] waiting;
        static volatile bool over;

        static int Main(string[] args)
        {
            int count = Number(args, "--count", 100000);
            int links = Number(args, "--chain", 10000);
            int tasks = Number(args, "--async", 100);
            int churn = Number(args, "--churn", 0);
            bool die = args.Contains("--die");
            Hold(count, links);
            LeaveGarbage();
            waiting = Enumerable.Range(0, tasks).Select(_ => Outer()).ToArray();
            for (int i = 0; i < churn; i++)
            {
                new Thread(Churn) { IsBackground = true }.Start();
            }
            var local = new OnStack { Only = new Attached() };
            Console.WriteLine("ready");
            int grown = Serve(die);
            over = true;
            GC.KeepAlive(local);
            Console.WriteLine(Truth(count, links, tasks, grown));
            return 0;
        }

        /// Reads lines until the last; returns how many objects were asked for.
        static int Serve(bool die)
        {
            int grown = 0;
            for (string line = Console.ReadLine(); line != null && (die || line.StartsWith("grow ")); line = Console.ReadLine())
            {
                if (die)
                {
                    Thread.Sleep(500);
                    Environment.FailFast("as asked");
                }
                int more = int.Parse(line.Substring(5), CultureInfo.InvariantCulture);
                for (int i = 0; i < more; i++)
                {
                    leaked.Add(new Leaked { Number = i });
                }
                grown += more;
                Console.WriteLine("grown");
            }
            return grown;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Hold(int count, int links)
        {
            duplicates = new string[Duplicates];
            unique = new string[Duplicates];
            for (int i = 0; i < Duplicates; i++)
            {
                duplicates[i] = new string(Duplicate.ToCharArray());
                unique[i] = "text number " + i.ToString(CultureInfo.InvariantCulture);
            }
            held.Capacity = count;
            for (int i = 0; i < count; i++)
            {
                var twin = i % 2 == 1 ? held[i - 1] : null;
                held.Add(new Held { Number = i, Text = i < Duplicates ? duplicates[i] : null, Twin = twin });
            }
            for (int i = 0; i < links; i++)
            {
                chain = new Link { Next = chain, Number = i };
            }
            for (int i = 0; i < Entries; i++)
            {
                entries.Add(i, new Entry { Number = i });
            }
            for (int i = 0; i < Pins; i++)
            {
                pins.Add(GCHandle.Alloc(new Pinned { First = i }, GCHandleType.Pinned));
            }
            finalizables = Enumerable.Range(0, Finalizables).Select(i => new Finalizable { Number = i }).ToArray();
            for (int i = 0; i < Math.Min(Attachments, count); i++)
            {
                attached.Add(held[i], new Attached { Number = i });
            }
            arrays = Enumerable.Range(0, Arrays).Select(_ => new Block[100]).ToArray();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void LeaveGarbage()
        {
            for (int i = 0; i < 1000; i++)
            {
                var one = new Garbage();
                one.Other = new Garbage { Other = one };
            }
        }

        static async Task<int> Outer()
        {
            return await Inner() + 1;
        }

        static async Task<int> Inner()
        {
            return await never.Task.ConfigureAwait(false) + 1;
        }

        static void Churn()
        {
            object kept = null;
            for (int i = 0; !over; i++)
            {
                kept = new byte[1000];
            }
            GC.KeepAlive(kept);
        }

        static string Truth(int count, int links, int tasks, int grown)
        {
            var types = new List<string>
            {
                Type("Clrscope.Samples.Held", count, 40), Type("Clrscope.Samples.Link", links, 32),
                Type("Clrscope.Samples.Entry", Entries, 24), Type("Clrscope.Samples.Pinned", Pins, 32),
                Type("Clrscope.Samples.Finalizable", Finalizables, 24),
                Type("Clrscope.Samples.Attached", Math.Min(Attachments, count) + 1, 24), Type("Clrscope.Samples.OnStack", 1, 24),
                Type("Clrscope.Samples.Garbage", 0, 24), Type("Clrscope.Samples.Leaked", grown, 32),
                // An array has its length, 8 bytes, before its elements.
                Type("Clrscope.Samples.Block[]", Arrays, 24 + 100 * 1000),
            };
            // A string has its length, 4 bytes, then its characters and a zero; objects lie 8 bytes aligned.
            int size = 16 + 4 + 2 * (Duplicate.Length + 1);
            var json = new StringBuilder();
            json.AppendFormat(CultureInfo.InvariantCulture, "{{\"sample\":\"heapster\",\"types\":{{{0}}},", string.Join(",", types));
            json.AppendFormat(
                CultureInfo.InvariantCulture,
                "\"duplicate\":{{\"text\":\"{0}\",\"strings\":{1},\"size\":{2}}},", Duplicate, Duplicates, size);
            json.AppendFormat(
                CultureInfo.InvariantCulture,
                "\"edges\":{{\"held_to_text\":{0},\"held_to_twin\":{1},\"link_to_link\":{2},\"dependent\":{3}}},",
                Math.Min(count, Duplicates), count / 2, Math.Max(0, links - 1), Math.Min(Attachments, count));
            json.AppendFormat(
                CultureInfo.InvariantCulture,
                "\"pinned\":{0},\"finalized\":{1},\"waiting\":{2},\"collections\":{3}}}", Pins, Finalized, tasks, GC.CollectionCount(2));
            return json.ToString();
        }

        static string Type(string name, int objects, long size)
        {
            return string.Format(
                CultureInfo.InvariantCulture, "\"{0}\":{{\"objects\":{1},\"bytes\":{2}}}", name, objects, objects * size);
        }

        static int Number(string[] args, string name, int fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? int.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
