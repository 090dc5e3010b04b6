// Calls methods, and native functions, and knows exactly how often, by which way and about how long.
//
//   --rounds N    how often everything small is called (default 1000)
//   --fib N       which Fibonacci number is computed by calling (default 20)
//   --threads N   threads that call at once (default 4)
//   --stress N    instead: that many threads that recurse and throw, each for --rounds rounds
//   --bench KIND  instead: `fib` (calls that do nothing else), `work` (calls that do a little), `nop` (of a method that
//                 does nothing) or `pinvoke`, as fast as possible
//   --calls N     how many calls that are (default 20000000)
//   --mix N       how often `work` mixes a number (default 16: a call of about 10 ns)
//   --wait        wait for the end of standard input before leaving
//
// Results are checked: a register that is lost on the way in or out of a method makes the exit code 3.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    public interface IShape
    {
        double Area(double scale);
    }

    public abstract class Shape : IShape
    {
        public abstract double Area(double scale);
        public virtual int Corners() { return 0; }
    }

    public sealed class Circle : Shape
    {
        public override double Area(double scale) { return 3 * scale * scale; }
    }

    public sealed class Square : Shape
    {
        public override double Area(double scale) { return scale * scale; }
        public override int Corners() { return 4; }
    }

    public sealed class Box<T>
    {
        readonly T value;
        public Box(T value) { this.value = value; }
        public T Get() { return value; }
    }

    /// Two registers of different kinds.
    public struct Mixed
    {
        public long Whole;
        public double Part;
        public Mixed(long whole, double part) { Whole = whole; Part = part; }
        public Mixed Twice() { return new Mixed(Whole * 2, Part * 2); }
    }

    /// Too large for registers.
    public struct Large
    {
        public long A, B, C, D;
        public long Sum() { return A + B + C + D; }
    }

    public sealed class CallerException : Exception
    {
    }

    public static class Caller
    {
        static readonly Dictionary<string, long> Methods = new Dictionary<string, long>();
        static readonly Dictionary<string, long> Paths = new Dictionary<string, long>();
        static bool wrong;
        static int after, atEnd;

        static int Main(string[] args)
        {
            int rounds = (int)Number(args, "--rounds", 1000);
            int stress = (int)Number(args, "--stress", 0);
            string bench = Text(args, "--bench");
            var clock = Stopwatch.StartNew();
            Console.WriteLine("ready");
            if (bench != null)
            {
                mix = (int)Number(args, "--mix", 16);
                Bench(bench, (long)Number(args, "--calls", 20000000));
                return 0;
            }
            string native = "{}";
            if (stress > 0)
            {
                Stress(stress, rounds);
            }
            else
            {
                Everything(rounds, (int)Number(args, "--fib", 20), (int)Number(args, "--threads", 4));
                native = Native(rounds);
            }
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture, "{{\"sample\":\"caller\",\"seconds\":{0:F3},\"methods\":{1},\"paths\":{2},\"native\":{3}}}",
                clock.Elapsed.TotalSeconds, Json(Methods), Json(Paths), native));
            if (args.Contains("--wait"))
            {
                Console.In.ReadToEnd();
            }
            return wrong ? 3 : 0;
        }

        static string Json(Dictionary<string, long> numbers)
        {
            return "{" + string.Join(",", numbers.Select(pair => "\"" + pair.Key + "\":" + pair.Value)) + "}";
        }

        static void Called(string method, long count)
        {
            long before;
            Methods.TryGetValue(method, out before);
            Methods[method] = before + count;
        }

        static void Check(bool right)
        {
            if (!right)
            {
                wrong = true;
            }
        }

        static void Everything(int rounds, int fib, int threads)
        {
            Fib(fib);
            Called("Caller.Fib", FibCalls(fib));

            RunOuter(rounds);
            Called("Caller.RunOuter", 1);
            Called("Caller.Outer", rounds);
            Called("Caller.Middle", 3L * rounds);
            Called("Caller.Leaf", (15L + 2) * rounds);
            Paths["Caller.RunOuter;Caller.Outer;Caller.Middle;Caller.Leaf"] = 15L * rounds;
            Paths["Caller.RunOuter;Caller.Outer;Caller.Leaf"] = 2L * rounds;

            RunShapes(rounds);
            Called("Circle.Area", 2L * rounds);
            Called("Square.Area", rounds);
            Called("Shape.Corners", 2L * rounds);
            Called("Square.Corners", rounds);

            RunGenerics(rounds);
            Called("Box.Get", 3L * rounds);
            Called("Caller.Same", 2L * rounds);

            RunRegisters(rounds);
            // For each of these it may be the first call that is counted.
            const int Fresh = 16;
            for (int i = 0; i < Fresh; i++)
            {
                var thread = new Thread(() => RunRegisters(1));
                thread.Start();
                thread.Join();
            }
            Called("Caller.Many", rounds + Fresh);
            Called("Caller.Doubles", rounds + Fresh);
            Called("Mixed.Twice", 2L * (rounds + Fresh));
            Called("Caller.MakeLarge", rounds + Fresh);
            Called("Large.Sum", rounds + Fresh);

            RunThrowers(rounds);
            Called("Caller.CatchAll", rounds);
            Called("Caller.Deep", 6L * rounds);
            Called("Caller.Throw", rounds);
            Called("Caller.AtEnd", 6L * rounds);
            Called("Caller.After", rounds);
            Called("Caller.AfterAll", rounds);
            // What is called by a catch block is called by its method, where the runtime tells of catching.
            Paths["Caller.RunThrowers;Caller.CatchAll;Caller.Deep;Caller.Deep;Caller.Deep;Caller.Deep;Caller.Deep;Caller.Deep;Caller.Throw"] = rounds;
            Paths["Caller.RunThrowers;Caller.AfterAll"] = rounds;
            Paths["Caller.CatchAll;Caller.After"] = rounds;
            Paths["Caller.Deep;Caller.AtEnd"] = 6L * rounds;
            Check(after == rounds && atEnd == 6 * rounds);

            Spin(200);
            Called("Caller.Spin", 1);
            for (int i = 0; i < 4; i++)
            {
                Rest(25);
            }
            Called("Caller.Rest", 4);

            var workers = Enumerable.Range(0, threads).Select(i => new Thread(() => Work(rounds)) { Name = "worker-" + i }).ToArray();
            foreach (Thread worker in workers)
            {
                worker.Start();
            }
            foreach (Thread worker in workers)
            {
                worker.Join();
            }
            Called("Caller.Work", threads);
            Called("Caller.WorkLeaf", (long)threads * rounds);
            Paths["Caller.Work;Caller.WorkLeaf"] = (long)threads * rounds;
        }

        static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }

        static long FibCalls(int n)
        {
            long a = 1, b = 1;
            for (int i = 2; i <= n; i++)
            {
                long next = a + b + 1;
                a = b;
                b = next;
            }
            return b;
        }

        static void RunOuter(int rounds)
        {
            int sum = 0;
            for (int i = 0; i < rounds; i++)
            {
                sum += Outer(i);
            }
            int expected = 0;
            for (int i = 0; i < rounds; i++)
            {
                expected += 17 * (i + 1);
            }
            Check(sum == expected);
        }

        static int Outer(int i) { return Middle(i) + Middle(i) + Middle(i) + Leaf(i) + Leaf(i); }

        static int Middle(int i) { return Leaf(i) + Leaf(i) + Leaf(i) + Leaf(i) + Leaf(i); }

        static int Leaf(int i) { return i + 1; }

        static void RunShapes(int rounds)
        {
            IShape circle = new Circle();
            Shape square = new Square(), round = new Circle();
            double area = 0;
            int corners = 0;
            for (int i = 0; i < rounds; i++)
            {
                area += circle.Area(2) + round.Area(1) + square.Area(3);
                corners += square.Corners() + round.Corners() + ((Shape)circle).Corners();
            }
            Check(area == 24.0 * rounds && corners == 4 * rounds);
        }

        static T Same<T>(T value) { return value; }

        static void RunGenerics(int rounds)
        {
            var whole = new Box<int>(7);
            var text = new Box<string>("seven");
            var part = new Box<double>(0.5);
            double sum = 0;
            for (int i = 0; i < rounds; i++)
            {
                sum += whole.Get() + text.Get().Length + part.Get() + Same(1.25f) + Same("x").Length;
            }
            Check(sum == 14.75 * rounds);
        }

        static double Many(long a, long b, long c, long d, long e, long f, long g, double p, double q, double r, double s, double t,
            double u, double v, double w, double x)
        {
            return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + p + 2 * q + 3 * r + 4 * s + 5 * t + 6 * u + 7 * v + 8 * w + 9 * x;
        }

        static double Doubles(Mixed a, Mixed b, float c) { return a.Part * b.Whole + b.Part * a.Whole + c; }

        static Large MakeLarge(long a) { return new Large { A = a, B = a + 1, C = a + 2, D = a + 3 }; }

        static void RunRegisters(int rounds)
        {
            for (int i = 0; i < rounds; i++)
            {
                Check(Many(1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9) == 140 + 285);
                Mixed one = new Mixed(i, 0.5).Twice(), other = new Mixed(3, i).Twice();
                Check(one.Whole == 2 * i && one.Part == 1 && other.Part == 2.0 * i);
                Check(Doubles(one, other, 0.25f) == 6 + 4.0 * i * i + 0.25);
                Check(MakeLarge(i).Sum() == 4L * i + 6);
            }
        }

        static void RunThrowers(int rounds)
        {
            for (int i = 0; i < rounds; i++)
            {
                CatchAll();
                AfterAll();
            }
        }

        static void CatchAll()
        {
            try
            {
                Deep(5);
            }
            catch (CallerException)
            {
                After();
            }
        }

        static void Deep(int depth)
        {
            try
            {
                if (depth == 0)
                {
                    Throw();
                }
                Deep(depth - 1);
            }
            finally
            {
                AtEnd();
            }
        }

        static void Throw() { throw new CallerException(); }

        static void AtEnd() { atEnd++; }

        static void After() { after++; }

        static void AfterAll() { }

        static void Spin(int milliseconds)
        {
            var clock = Stopwatch.StartNew();
            while (clock.ElapsedMilliseconds < milliseconds)
            {
            }
        }

        static void Rest(int milliseconds) { Thread.Sleep(milliseconds); }

        static void Work(int rounds)
        {
            for (int i = 0; i < rounds; i++)
            {
                WorkLeaf(i);
            }
        }

        static int WorkLeaf(int i) { return i ^ 1; }

        // Threads that recurse and throw

        static void Stress(int threads, int rounds)
        {
            var workers = Enumerable.Range(0, threads).Select(i => new Thread(() => StressWork(i, rounds)) { Name = "stress-" + i }).ToArray();
            foreach (Thread worker in workers)
            {
                worker.Start();
            }
            foreach (Thread worker in workers)
            {
                worker.Join();
            }
            Called("Caller.StressWork", threads);
            for (int i = 0; i < threads; i++)
            {
                for (int round = 0; round < rounds; round++)
                {
                    Called("Caller.StressRound", 1);
                    Called("Caller.Recurse", StressDepth(i, round) + 1);
                    Called("Caller.Bottom", 1);
                }
            }
        }

        static int StressDepth(int thread, int round) { return 5 + (thread * 7 + round * 13) % 60; }

        static void StressWork(int thread, int rounds)
        {
            for (int round = 0; round < rounds; round++)
            {
                StressRound(StressDepth(thread, round), round);
            }
        }

        static void StressRound(int depth, int round)
        {
            try
            {
                double sum = Recurse(depth, round, 0.5);
                Check(sum == 0.5 * (depth + 1) + round);
            }
            catch (CallerException)
            {
                Check(round % 3 == 0);
            }
        }

        static double Recurse(int depth, int round, double part)
        {
            if (depth == 0)
            {
                return part + Bottom(round);
            }
            return part + Recurse(depth - 1, round, part);
        }

        static int Bottom(int round)
        {
            if (round % 3 == 0)
            {
                throw new CallerException();
            }
            return round;
        }

        // Native code

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        delegate int Compare(IntPtr a, IntPtr b);

        [DllImport("libc")]
        static extern int getppid();

        [DllImport("libc")]
        static extern int usleep(uint microseconds);

        [DllImport("libc")]
        static extern void qsort(int[] values, UIntPtr count, UIntPtr size, Compare compare);

        static int compared;

        static int CompareNumbers(IntPtr a, IntPtr b)
        {
            compared++;
            getppid();
            return Marshal.ReadInt32(a).CompareTo(Marshal.ReadInt32(b));
        }

        static string Native(int rounds)
        {
            for (int i = 0; i < rounds; i++)
            {
                getppid();
            }
            for (int i = 0; i < 10; i++)
            {
                usleep(10000);
            }
            int[] values = Enumerable.Range(0, 50).Select(i => i * 7919 % 50).ToArray();
            Compare compare = CompareNumbers;
            qsort(values, (UIntPtr)values.Length, (UIntPtr)sizeof(int), compare);
            GC.KeepAlive(compare);
            Check(values.SequenceEqual(Enumerable.Range(0, 50)));
            return string.Format(
                CultureInfo.InvariantCulture,
                "{{\"getppid\":{0},\"getppid_from_compare\":{1},\"usleep\":10,\"usleep_ns\":100000000,\"qsort\":1,\"compare\":{1}}}",
                rounds, compared);
        }

        // As fast as possible

        static ulong sink;
        static int mix;

        static void Bench(string kind, long calls)
        {
            // Once to have everything compiled, and compiled again.
            for (int i = 0; i < 3; i++)
            {
                BenchRound(kind, calls / 10);
                Thread.Sleep(200);
            }
            var clock = Stopwatch.StartNew();
            long done = BenchRound(kind, calls);
            double nanos = clock.Elapsed.TotalMilliseconds * 1e6;
            Console.WriteLine(string.Format(
                CultureInfo.InvariantCulture, "{{\"sample\":\"caller\",\"bench\":\"{0}\",\"calls\":{1},\"ns_per_call\":{2:F3}}}",
                kind, done, nanos / done));
        }

        static long BenchRound(string kind, long calls)
        {
            long done = 0;
            switch (kind)
            {
                case "fib":
                    while (done < calls)
                    {
                        Fib(25);
                        done += FibCalls(25);
                    }
                    break;
                case "nop":
                    for (; done < calls; done++)
                    {
                        Nop();
                    }
                    break;
                case "pinvoke":
                    for (; done < calls; done++)
                    {
                        getppid();
                    }
                    break;
                default:
                    for (; done < calls; done += 2)
                    {
                        sink += Caller2(done);
                    }
                    break;
            }
            return done;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Nop() { }

        /// Calls one method that works a little.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static ulong Caller2(long seed) { return Mix((ulong)seed | 1); }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static ulong Mix(ulong x)
        {
            for (int i = 0; i < mix; i++)
            {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
            }
            return x;
        }

        static string Text(string[] args, string name)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? args[at + 1] : null;
        }

        static double Number(string[] args, string name, double fallback)
        {
            string text = Text(args, name);
            return text == null ? fallback : double.Parse(text, CultureInfo.InvariantCulture);
        }
    }
}
