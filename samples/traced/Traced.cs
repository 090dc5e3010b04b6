// Calls methods of every shape, and knows exactly how often and how many of them fail. What is called is hot and compiled before
// it says that it is ready; then each line on standard input is a command:
//
//   go N        call everything N times on each thread, then print the truth of that
//   spin        from now on call without end, on all threads; `still` ends that and prints the truth of it
//   threads     print how many threads call
//   exit        leave with code 0
//
//   --threads N   threads that call at once (default 2)
//   --sleep MS    how long Traced.Rest sleeps (default 20)
//
// Results are checked: a wrong one makes the exit code 3.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

// For rules that ask for versions.
[assembly: AssemblyVersion("2.1.0.0")]

namespace Clrscope.Samples
{
    /// For rules that ask for attributes.
    [AttributeUsage(AttributeTargets.All)]
    public sealed class MeasuredAttribute : Attribute
    {
        public string Why;
        public MeasuredAttribute(string why) { Why = why; }
    }

    public interface IVisitor
    {
        int Visit(int value);
    }

    public abstract class Visitor : IVisitor
    {
        public abstract int Visit(int value);
        public virtual int Twice(int value) { return Visit(value) + Visit(value); }
    }

    public sealed class Adder : Visitor, IVisitor
    {
        readonly int by;
        public Adder(int by) { this.by = by; }
        public override int Visit(int value) { return value + by; }
        int IVisitor.Visit(int value) { return value + by + 1; }
    }

    public class Box<T>
    {
        public T Value;
        public Box(T value) { Value = value; }
        public T Get() { return Value; }
        public U Map<U>(Func<T, U> map) { return map(Value); }
        public static T First(T[] all) { return all[0]; }

        public struct Inner
        {
            public T Value;
            public T Take() { return Value; }
        }
    }

    [Measured("all of its methods")]
    public struct Point
    {
        public long X, Y;
        public Point(long x, long y) { X = x; Y = y; }
        public long Sum() { return X + Y; }
        public void Move(long by) { X += by; Y += by; }
        public Point Moved(long by) { var moved = this; moved.Move(by); return moved; }
    }

    /// A structure that only lives on the stack.
    public ref struct Window
    {
        readonly Span<int> all;
        public Window(Span<int> all) { this.all = all; }
        public int Total()
        {
            int total = 0;
            foreach (int one in all) total += one;
            return total;
        }
        public Span<int> Half() { return all.Slice(all.Length / 2); }
    }

    public sealed class Odd : Exception
    {
        public Odd(string message) : base(message) { }
    }

    public sealed class Promise<T>
    {
        readonly T value;
        public Promise(T value) { this.value = value; }
        public async ValueTask<T> Get() { await Task.Yield(); return value; }
        public static async ValueTask<KeyValuePair<T, U>> Pair<U>(T value, U other)
        {
            await Task.Yield();
            return new KeyValuePair<T, U>(value, other);
        }
    }

    /// Asynchronous methods without a Task.
    public static class Valued
    {
        public static async ValueTask<int> AtOnce(int value)
        {
            if (value < 0) await Task.Yield();
            return value + 1;
        }

        public static async ValueTask<int> Later(int value)
        {
            await Task.Delay(30).ConfigureAwait(false);
            return value + 1;
        }

        /// Before the wait, behind it, or not at all.
        public static async ValueTask<int> Fails(int value)
        {
            if (value % 3 == 0) throw new Odd("at once");
            await Task.Yield();
            if (value % 3 == 1) throw new Odd("later");
            return value;
        }

        /// The same without a result; below 0 it does not wait. As compilers make it of an `async` method: mcs cannot.
        [AsyncStateMachine(typeof(QuietMachine))]
        public static ValueTask Quiet(int value)
        {
            var machine = new QuietMachine { Value = value, Builder = AsyncValueTaskMethodBuilder.Create() };
            machine.Builder.Start(ref machine);
            return machine.Builder.Task;
        }

        struct QuietMachine : IAsyncStateMachine
        {
            public int Value;
            public AsyncValueTaskMethodBuilder Builder;
            bool waited;
            YieldAwaitable.YieldAwaiter awaiter;

            public void MoveNext()
            {
                try
                {
                    if (Value >= 0)
                    {
                        if (Value % 3 == 0) throw new Odd("at once");
                        if (!waited)
                        {
                            waited = true;
                            awaiter = Task.Yield().GetAwaiter();
                            Builder.AwaitUnsafeOnCompleted(ref awaiter, ref this);
                            return;
                        }
                        awaiter.GetResult();
                        if (Value % 3 == 1) throw new Odd("later");
                    }
                }
                catch (Exception exception)
                {
                    Builder.SetException(exception);
                    return;
                }
                Builder.SetResult();
            }

            public void SetStateMachine(IAsyncStateMachine machine) { Builder.SetStateMachine(machine); }
        }

        public static async void Forgotten(TaskCompletionSource<int> done)
        {
            await Task.Yield();
            done.SetResult(3);
        }

        // Not called: marked as compilers do with an asynchronous iterator, of which mcs knows nothing.
        [AsyncIteratorStateMachine(typeof(Valued))]
        public static IAsyncEnumerable<int> Sequence() { return null; }
    }

    public static class Traced
    {
        static int wrong;
        static long allocated;
        static readonly int[] Numbers = Enumerable.Range(0, 64).ToArray();
        static int restTime = 20;
        static double restMedian, busyMedian, valuedMedian;

        static void Check(bool right, string what)
        {
            if (right) return;
            if (Interlocked.Increment(ref wrong) < 10) Console.Error.WriteLine("wrong: " + what);
        }

        // Small enough to be inlined.
        public static int Plain(int value) { return value + 1; }
        public static int Calls(int value) { return Plain(value) + Plain(value + 1); }
        public static void Nothing() { }

        public static int Loop(int count)
        {
            // The loop comes back to the very first instruction.
            do { count -= 3; } while (count > 0);
            return count;
        }

        public static int Many(int value)
        {
            if (value < 0) return -1;
            switch (value % 5)
            {
                case 0: return 10;
                case 1: return 11;
                case 2: try { return 12; } finally { GC.KeepAlive(Numbers); }
                case 3: break;
                default: lock (Numbers) { return 14; }
            }
            return 13;
        }

        public static ref int Slot(int[] all, int index) { return ref all[index]; }
        public static void Out(ref int a, out string b, in long c) { a += (int)c; b = a.ToString(CultureInfo.InvariantCulture); }
        public static T Same<T>(T value) { return value; }
        public static KeyValuePair<TKey, List<TValue>> Pair<TKey, TValue>(TKey key, TValue value)
        {
            return new KeyValuePair<TKey, List<TValue>>(key, new List<TValue> { value });
        }

        public static int Throws(int value)
        {
            if (value % 2 == 1) throw new Odd("odd");
            return value;
        }

        // Exceptions pass through these.
        public static int Passes(int value)
        {
            int result = Throws(value);
            return result + 1;
        }

        [DebuggerNonUserCode]
        public static int Catches(int value)
        {
            try { return Passes(value); }
            catch (Odd odd) when (Filter(odd)) { return -1; }
            finally { Nothing(); }
        }

        public static bool Filter(Odd odd) { return odd.Message == "odd"; }

        [Measured("recursive")]
        public static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }

        [Measured("locks"), MethodImpl(MethodImplOptions.Synchronized)]
        public static int Locked(int value) { return value * 2; }

        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        public static long Inlined(long value) { return value * 3; }

        public static decimal Large(decimal a, decimal b, Guid c, DateTime d, double e, float f, object g, string h)
        {
            return a + b + (decimal)e + (decimal)f + (g == null ? 0 : 1) + h.Length + d.Year + c.ToByteArray()[0];
        }

        public static IEnumerable<int> Steps(int count)
        {
            for (int i = 0; i < count; i++) yield return i;
        }

        public static async Task<int> AtOnce(int value)
        {
            if (value < 0) await Task.Yield();
            return value + 1;
        }

        public static async Task<int> Later(int value)
        {
            await Task.Delay(30).ConfigureAwait(false);
            return value + 1;
        }

        public static async Task Fails(int value)
        {
            await Task.Yield();
            if (value % 2 == 0) throw new Odd("later");
        }

        public static unsafe int Stack(int size)
        {
            int* numbers = stackalloc int[size];
            for (int i = 0; i < size; i++) numbers[i] = i;
            return numbers[size - 1];
        }

        // Not called: no runtime but that of Windows can.
        public static int Arguments(__arglist)
        {
            return new ArgIterator(__arglist).GetRemainingCount();
        }

        [DllImport("libc")]
        static extern int getpid();

        public static int Native() { return getpid(); }

        public static void Rest() { Thread.Sleep(restTime); }

        /// How long the middle one of these calls took, in nanoseconds, as the caller sees it.
        static double Median(int count, Action call)
        {
            var times = new double[count];
            for (int i = 0; i < count; i++)
            {
                long begun = Stopwatch.GetTimestamp();
                call();
                times[i] = (Stopwatch.GetTimestamp() - begun) * 1e9 / Stopwatch.Frequency;
            }
            Array.Sort(times);
            return times[count / 2];
        }

        /// Busy for 200 µs.
        public static void Busy()
        {
            long end = Stopwatch.GetTimestamp() + Stopwatch.Frequency / 5000;
            while (Stopwatch.GetTimestamp() < end) { }
        }

        /// One round of everything that is quick.
        static void Round(int round)
        {
            Check(Plain(round) == round + 1, "Plain");
            Check(Calls(round) == 2 * round + 3, "Calls");
            Nothing();
            Check(Loop(9) == 0, "Loop");
            Check(Many(round) == 10 + round % 5, "Many");
            var all = new[] { 1, 2, 3 };
            Slot(all, 1) = 7;
            Check(all[1] == 7, "Slot");
            int a = 1;
            string b;
            Out(ref a, out b, 41);
            Check(a == 42 && b == "42", "Out");
            Check(Same(round) == round && Same("x") == "x" && Same(new Point(1, 2)).Sum() == 3, "Same");
            Check(Pair("k", round).Value[0] == round, "Pair");
            Check(Catches(round) == (round % 2 == 1 ? -1 : round + 1), "Catches");
            Check(Locked(round) == 2 * round, "Locked");
            Check(Inlined(round) == 3L * round, "Inlined");
            Check(Large(1, 2, Guid.Empty, new DateTime(2000, 1, 1), 0.5, 0.5f, all, "abc") == 2008, "Large");
            int sum = 0;
            foreach (int step in Steps(3)) sum += step;
            Check(sum == 3, "Steps");
            Check(AtOnce(round).Result == round + 1, "AtOnce");
            long before = GC.GetAllocatedBytesForCurrentThread();
            int valued = Valued.AtOnce(round).Result;
            Interlocked.Add(ref allocated, GC.GetAllocatedBytesForCurrentThread() - before);
            Check(valued == round + 1, "Valued.AtOnce");
            Check(Valued.Quiet(-1).IsCompletedSuccessfully, "Valued.Quiet");
            Check(Stack(8) == 7, "Stack");
            Check(Native() > 0, "Native");
            var adder = new Adder(2);
            Check(adder.Visit(1) == 3 && adder.Twice(1) == 6 && ((IVisitor)adder).Visit(1) == 4, "Visitor");
            Check(new Box<int>(round).Get() == round && new Box<string>("y").Get() == "y", "Box");
            Check(new Box<int>(2).Map(two => two + 1) == 3, "Map");
            Check(Box<string>.First(new[] { "z" }) == "z", "First");
            Check(new Box<Point>.Inner { Value = new Point(3, 4) }.Take().Sum() == 7, "Inner");
            Check(new Point(1, 1).Moved(2).Sum() == 6, "Moved");
            Span<int> numbers = stackalloc int[4];
            numbers.Fill(5);
            Check(new Window(numbers).Total() == 20 && new Window(numbers).Half().Length == 2, "Window");
        }

        /// Calls by a round, and how many of them fail in an even and in an odd one.
        static readonly Dictionary<string, int[]> PerRound = new Dictionary<string, int[]>
        {
            ["Clrscope.Samples.Traced.Plain"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Traced.Calls"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Nothing"] = new[] { 2, 0, 0 },
            ["Clrscope.Samples.Traced.Loop"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Many"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Slot"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Out"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Same<T>"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Traced.Pair<TKey, TValue>"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Throws"] = new[] { 1, 0, 1 },
            ["Clrscope.Samples.Traced.Passes"] = new[] { 1, 0, 1 },
            ["Clrscope.Samples.Traced.Catches"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Locked"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Inlined"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Large"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Steps"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.AtOnce"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Valued.AtOnce"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Stack"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Traced.Native"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Adder..ctor"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Adder.Visit"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Adder.Clrscope.Samples.IVisitor.Visit"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Visitor.Twice"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Box<T>..ctor"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Box<T>.Get"] = new[] { 2, 0, 0 },
            ["Clrscope.Samples.Box<T>.Map<U>"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Box<T>.First"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Point..ctor"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Point.Sum"] = new[] { 3, 0, 0 },
            ["Clrscope.Samples.Point.Move"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Point.Moved"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Window..ctor"] = new[] { 2, 0, 0 },
            ["Clrscope.Samples.Window.Total"] = new[] { 1, 0, 0 },
            ["Clrscope.Samples.Window.Half"] = new[] { 1, 0, 0 },
        };

        static void OnThreads(int threads, Action<int> act)
        {
            var all = Enumerable.Range(0, threads).Select(index => new Thread(() => act(index)) { Name = "caller-" + index }).ToList();
            all.ForEach(thread => thread.Start());
            all.ForEach(thread => thread.Join());
        }

        static void Slow()
        {
            restMedian = Median(11, Rest);
            busyMedian = Median(101, Busy);
            Check(Fib(15) == 610, "Fib");
            var later = Enumerable.Range(0, 10).Select(i => Later(i)).ToArray();
            Task.WaitAll(later);
            for (int i = 0; i < 10; i++)
            {
                try { Fails(i).Wait(); Check(i % 2 == 1, "Fails"); }
                catch (AggregateException) { Check(i % 2 == 0, "Fails"); }
            }
            SlowValued();
        }

        static void SlowValued()
        {
            valuedMedian = Median(11, () => Check(Valued.Later(1).AsTask().Result == 2, "Valued.Later"));
            for (int i = 0; i < 10; i++)
            {
                try { Check(Valued.Fails(i).AsTask().Result == i && i % 3 == 2, "Valued.Fails"); }
                catch (AggregateException) { Check(i % 3 != 2, "Valued.Fails"); }
                try { Valued.Quiet(i).AsTask().Wait(); Check(i % 3 == 2, "Valued.Quiet"); }
                catch (AggregateException) { Check(i % 3 != 2, "Valued.Quiet"); }
                Check(new Promise<int>(i).Get().AsTask().Result == i, "Promise");
                Check(new Promise<string>("p").Get().AsTask().Result == "p", "Promise");
                Check(Promise<string>.Pair("p", i).AsTask().Result.Value == i, "Promise.Pair");
            }
            var done = new TaskCompletionSource<int>();
            Valued.Forgotten(done);
            Check(done.Task.Result == 3, "Valued.Forgotten");
        }

        static string Truth(long rounds, long even, long slow)
        {
            var rows = PerRound.Select(row => Row(row.Key, rounds * row.Value[0], even * row.Value[1] + (rounds - even) * row.Value[2])).ToList();
            rows.Add(Row("Clrscope.Samples.Traced.Rest", 11 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Traced.Busy", 101 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Traced.Fib", 1973 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Traced.Later", 10 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Traced.Fails", 10 * slow, 5 * slow));
            rows.Add(Row("Clrscope.Samples.Valued.Later", 11 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Valued.Fails", 10 * slow, 7 * slow));
            rows.Add(Row("Clrscope.Samples.Valued.Quiet", rounds + 10 * slow, 7 * slow));
            rows.Add(Row("Clrscope.Samples.Promise<T>..ctor", 20 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Promise<T>.Get", 20 * slow, 0));
            rows.Add(Row("Clrscope.Samples.Promise<T>.Pair<U>", 10 * slow, 0));
            return "{\"methods\":{" + string.Join(",", rows) + "},\"medians\":{\"Traced.Rest\":" + (long)restMedian + ",\"Traced.Busy\":" + (long)busyMedian + ",\"Valued.Later\":" + (long)valuedMedian + "},\"allocated\":" + Interlocked.Exchange(ref allocated, 0) + ",\"wrong\":" + wrong + "}";
        }

        static string Row(string name, long calls, long errors)
        {
            return "\"" + name + "\":{\"calls\":" + calls + ",\"errors\":" + errors + "}";
        }

        public static int Main(string[] arguments)
        {
            int threads = 2;
            for (int i = 0; i + 1 < arguments.Length; i += 2)
            {
                int value = int.Parse(arguments[i + 1], CultureInfo.InvariantCulture);
                if (arguments[i] == "--threads") threads = value;
                else if (arguments[i] == "--sleep") restTime = value;
            }
            // Until all is compiled in its last tier, and small methods are inlined.
            for (int i = 0; i < 5; i++)
            {
                OnThreads(threads, index => { for (int round = 0; round < 200; round++) Round(round); });
                Thread.Sleep(120);
            }
            Slow();
            allocated = 0;
            Console.WriteLine("ready");
            bool spinning = false;
            long spun = 0, spunEven = 0;
            Thread spinner = null;
            for (string line = Console.ReadLine(); line != null; line = Console.ReadLine())
            {
                string[] words = line.Split(' ');
                switch (words[0])
                {
                    case "go":
                        int count = int.Parse(words[1], CultureInfo.InvariantCulture);
                        OnThreads(threads, index => { for (int round = 0; round < count; round++) Round(round); });
                        Slow();
                        Console.WriteLine(Truth((long)threads * count, (long)threads * ((count + 1) / 2), 1));
                        break;
                    case "spin":
                        spinning = true;
                        spun = spunEven = 0;
                        spinner = new Thread(() => OnThreads(threads, index =>
                        {
                            int round = 0;
                            for (; Volatile.Read(ref spinning); round++) Round(round);
                            Interlocked.Add(ref spun, round);
                            Interlocked.Add(ref spunEven, (round + 1) / 2);
                        }));
                        spinner.Start();
                        break;
                    case "still":
                        Volatile.Write(ref spinning, false);
                        spinner.Join();
                        Console.WriteLine(Truth(spun, spunEven, 0));
                        break;
                    case "threads":
                        Console.WriteLine(threads);
                        break;
                    case "exit":
                        return wrong == 0 ? 0 : 3;
                }
            }
            return wrong == 0 ? 0 : 3;
        }
    }
}
