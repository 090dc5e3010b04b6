// Calls methods with arguments of every kind, with values that it is known for. Each line on standard input is a command:
//
//   go        call each method once, then print how many values came out wrong
//   storm N   call Shown.Hot N times on each of four threads, while there are collections, then print how many calls that were
//   exit      leave with code 0
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Clrscope.Samples
{
    public enum Tiny : sbyte { Low = -3, High = 100 }

    public class Order
    {
        public enum Kind { None, Large = 7 }
        public int Number;
        [MethodImpl(MethodImplOptions.NoInlining)]
        public int Weigh(int factor, Kind kind) { return Number * factor + (int)kind; }
    }

    public struct Point
    {
        public long X, Y;
    }

    public class Box<T>
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public T Put(T value, List<T> all, int place) { all[place] = value; return value; }

        public async Task<T> Soon(T value, string name, int place)
        {
            await Task.Delay(place).ConfigureAwait(false);
            return name.Length == place ? value : default(T);
        }
    }

    public static class Shown
    {
        static int wrong;
        static long calls;

        static void Check(bool right) { if (!right) Interlocked.Increment(ref wrong); }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static double Numbers(sbyte a, byte b, short c, ushort d, int e, uint f, long g, ulong h, char i, bool j, float k, double l, IntPtr m, UIntPtr n)
        {
            return a + b + c + d + e + f + (double)g + h + i + (j ? 1 : 0) + k + l + (long)m + (ulong)n;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Mixed(int id, string name, string password, string hiddenNote, object other, DayOfWeek day, Tiny tiny, long[] all,
            string[,] table, Order order, Point point, ref int counter, string none, Guid guid, int? maybe)
        {
            counter++;
            return id + name.Length + password.Length + hiddenNote.Length + (int)day + (int)tiny + all.Length + table.Length + order.Number + (int)point.X;
        }

        // What is shown is what it was called with.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static string Changes(int id, string name, double weight)
        {
            Bump(ref id);
            name = name + id.ToString(CultureInfo.InvariantCulture);
            weight *= 2;
            return name + weight.ToString(CultureInfo.InvariantCulture);
        }

        static void Bump(ref int id) { id += 100; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Fails(int id, string reason)
        {
            if (id > 0) throw new InvalidOperationException(reason);
            return id;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Long(string text) { GC.KeepAlive(text); }

        public static async Task<int> Later(int id, string name)
        {
            await Task.Delay(5).ConfigureAwait(false);
            return id + name.Length;
        }

        // Over before it has ever waited.
        public static async Task<int> AtOnce(int id, string password, Order order)
        {
            if (id < 0) await Task.Delay(5).ConfigureAwait(false);
            return id + password.Length + order.Number;
        }

        // What it was called with is gone in the end, but for the first.
        public static async Task<string> Rewrites(double weight, int id, string name, long never)
        {
            await Task.Delay(5).ConfigureAwait(false);
            Bump(ref id);
            name = name + id.ToString(CultureInfo.InvariantCulture);
            return name + Convert.ToString(weight, CultureInfo.InvariantCulture);
        }

        public static async Task Breaks(string reason)
        {
            await Task.Delay(5).ConfigureAwait(false);
            throw new InvalidOperationException(reason);
        }

        // Its state machine needs none of them.
        public static async Task Ignores(int id) { await Task.Delay(5).ConfigureAwait(false); }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Hot(int id, string text, object any, double half)
        {
            return text.Length + id;
        }

        static void Go()
        {
            Check(Numbers(-1, 255, -300, 65535, int.MinValue, uint.MaxValue, long.MinValue, ulong.MaxValue, 'é', true, 0.1f, -2.5, (IntPtr)(-7), (UIntPtr)7) != 0);
            int counter = 1;
            var order = new Order { Number = 5 };
            int mixed = Mixed(42, "Zoë \"Q\"", "hunter2-secret", "hidden-note", new Version(1, 2), DayOfWeek.Thursday, Tiny.Low, new long[3],
                new string[2, 4], order, new Point { X = 1 }, ref counter, null, Guid.Empty, 9);
            Check(mixed == 42 + 7 + 14 + 11 + 4 - 3 + 3 + 8 + 5 + 1 && counter == 2);
            Check(Changes(1, "n", 1.5) == "n1013");
            try { Fails(3, "on purpose"); Check(false); }
            catch (InvalidOperationException failure) { Check(failure.Message == "on purpose"); }
            Long(string.Concat(Enumerable.Repeat("0123456789", 100)));
            Check(order.Weigh(2, Order.Kind.Large) == 17);
            Check(new Box<int>().Put(6, new List<int> { 0 }, 0) == 6);
            Check(new Box<string>().Put("s", new List<string> { "" }, 0) == "s");
            Check(Later(8, "later").Result == 13);
            Check(AtOnce(1, "hunter2-later", order).Result == 1 + 13 + 5);
            Check(Rewrites(0.5, 1, "r", 7).Result == "r1010.5");
            try { Breaks("in the end").Wait(); Check(false); }
            catch (AggregateException failure) { Check(failure.InnerException.Message == "in the end"); }
            Ignores(4).Wait();
            Check(new Box<long>().Soon(9, "four", 4).Result == 9);
            Check(new Box<string>().Soon("s", "fivex", 5).Result == "s");
        }

        static void Storm(int count)
        {
            var threads = Enumerable.Range(0, 4).Select(index => new Thread(() =>
            {
                for (int i = 0; i < count; i++)
                {
                    int id = index * 1000000 + i;
                    string text = "text-" + id.ToString(CultureInfo.InvariantCulture);
                    object any = i % 3 == 0 ? (object)new byte[i % 1000] : i % 3 == 1 ? new Order() : null;
                    Check(Hot(id, text, any, id / 2.0) == text.Length + id);
                    Interlocked.Increment(ref calls);
                    if (i % 500 == 0) GC.Collect(i % 1000 == 0 ? 2 : 0, GCCollectionMode.Forced, true, i % 1000 == 0);
                }
            })).ToList();
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
        }

        public static int Main(string[] arguments)
        {
            Go();
            Console.WriteLine("ready");
            for (string line = Console.ReadLine(); line != null && line != "exit"; line = Console.ReadLine())
            {
                string[] words = line.Split(' ');
                calls = 0;
                if (words[0] == "go") Go();
                else Storm(int.Parse(words[1], CultureInfo.InvariantCulture));
                Console.WriteLine("{\"calls\":" + calls + ",\"wrong\":" + wrong + "}");
            }
            return wrong == 0 ? 0 : 3;
        }
    }
}
