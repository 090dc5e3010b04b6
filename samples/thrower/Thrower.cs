// Throws a known number of exceptions of known types, and says how many of each.
//
//   --count N     how many to throw (default 1000)
//   --rate N      how many per second; 0 is as fast as possible (default 1000)
//   --seconds N   throw for this long instead of a given number
//   --rare N      one of every N is of the rare type (default 100)
//   --only KIND   throw only this kind besides the rare one (plain, deep, wrapped, filtered, generic, null, finally)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Nothing is rethrown, so that one object is one throw.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;

namespace Clrscope.Samples
{
    public class PlainException : Exception
    {
        public PlainException(string message) : base(message) { }
    }

    public class DeepException : Exception
    {
        public DeepException(string message) : base(message) { }
    }

    public class WrappedException : Exception
    {
        public WrappedException(string message, Exception inner) : base(message, inner) { }
    }

    public class RareException : Exception
    {
        public RareException(string message) : base(message) { }
    }

    public static class Outer
    {
        public class FilteredException : Exception
        {
            public readonly int Code;
            public FilteredException(int code) : base("code " + code) { Code = code; }
        }
    }

    public class GenericException<T> : Exception
    {
        public GenericException(T value) : base("value " + value) { }
    }

    /// What is known about one type of exception.
    sealed class Known
    {
        public string Type, ThrownIn, CaughtIn, Message;
        public long Count;
    }

    public static class Thrower
    {
        const int Depth = 12;
        static readonly Dictionary<string, Known> all = new Dictionary<string, Known>();
        static object nothing = null;
        static int finallies;

        static int Main(string[] args)
        {
            long count = (long)Number(args, "--count", 1000);
            double rate = Number(args, "--rate", 1000);
            double seconds = Number(args, "--seconds", 0);
            long rare = (long)Number(args, "--rare", 100);
            bool gate = args.Contains("--gate");
            var kinds = new List<Action<int>> { Plain, Deep, Wrapped, Filtered, Generic, Null, Finally };
            int only = Array.IndexOf(args, "--only");
            if (only >= 0)
            {
                string[] names = { "plain", "deep", "wrapped", "filtered", "generic", "null", "finally" };
                kinds = new List<Action<int>> { kinds[Array.IndexOf(names, args[only + 1])] };
            }
            // One of each, so that everything is compiled before the counting starts.
            foreach (Action<int> kind in kinds)
            {
                kind(0);
            }
            Rare(0);
            foreach (Known known in all.Values)
            {
                known.Count = 0;
            }
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }

            var clock = Stopwatch.StartNew();
            long thrown = 0;
            for (int i = 1; seconds > 0 ? clock.Elapsed.TotalSeconds < seconds : thrown < count; i++)
            {
                if (i % rare == 0)
                {
                    Rare(i);
                }
                else
                {
                    kinds[i % kinds.Count](i);
                }
                thrown = all.Values.Sum(known => known.Count);
                double ahead = rate > 0 ? thrown / rate - clock.Elapsed.TotalSeconds : 0;
                if (ahead > 0.002)
                {
                    Thread.Sleep(TimeSpan.FromSeconds(ahead));
                }
            }

            var text = new StringBuilder();
            text.Append("{\"sample\":\"thrower\",\"total\":").Append(thrown);
            text.Append(",\"seconds\":").Append(clock.Elapsed.TotalSeconds.ToString("F3", CultureInfo.InvariantCulture));
            text.Append(",\"exceptions\":{");
            text.Append(string.Join(",", all.Values.OrderBy(known => known.Type, StringComparer.Ordinal).Select(known => string.Format(
                "\"{0}\":{{\"count\":{1},\"thrown_in\":\"{2}\",\"caught_in\":\"{3}\",\"message\":\"{4}\"}}",
                known.Type, known.Count, known.ThrownIn, known.CaughtIn, known.Message))));
            text.Append("}}");
            Console.WriteLine(text.ToString());
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        /// Counts one thrown exception. The names are as the language spells them, without parameters.
        static void Saw(string type, string thrownIn, string caughtIn, string message)
        {
            Known known;
            if (!all.TryGetValue(type, out known))
            {
                known = new Known
                {
                    Type = "Clrscope.Samples." + type,
                    ThrownIn = "Clrscope.Samples.Thrower." + thrownIn,
                    CaughtIn = "Clrscope.Samples.Thrower." + caughtIn,
                    Message = message,
                };
                if (type.StartsWith("System."))
                {
                    known.Type = type;
                }
                all.Add(type, known);
            }
            known.Count++;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Plain(int i)
        {
            try
            {
                throw new PlainException("plain");
            }
            catch (PlainException)
            {
                Saw("PlainException", "Plain", "Plain", "plain");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Deep(int i)
        {
            try
            {
                Descend(Depth);
            }
            catch (DeepException)
            {
                Saw("DeepException", "Descend", "Deep", "deep");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Descend(int left)
        {
            if (left == 0)
            {
                throw new DeepException("deep");
            }
            return Descend(left - 1) + 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Wrapped(int i)
        {
            try
            {
                Wrap();
            }
            catch (WrappedException wrapped) when (wrapped.InnerException is InvalidOperationException)
            {
                Saw("System.InvalidOperationException", "Inner", "Wrap", "inner");
                Saw("WrappedException", "Wrap", "Wrapped", "outer");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Wrap()
        {
            try
            {
                Inner();
            }
            catch (InvalidOperationException inner)
            {
                throw new WrappedException("outer", inner);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Inner()
        {
            throw new InvalidOperationException("inner");
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Filtered(int i)
        {
            try
            {
                try
                {
                    throw new Outer.FilteredException(42);
                }
                catch (Outer.FilteredException refused) when (refused.Code != 42)
                {
                    finallies--;
                }
            }
            catch (Outer.FilteredException accepted) when (accepted.Code == 42)
            {
                Saw("Outer+FilteredException", "Filtered", "Filtered", "code 42");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Generic(int i)
        {
            try
            {
                throw new GenericException<int>(7);
            }
            catch (GenericException<int>)
            {
                Saw("GenericException`1", "Generic", "Generic", "value 7");
            }
        }

        /// A fault of the processor rather than a throw statement.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Null(int i)
        {
            try
            {
                nothing.GetHashCode();
            }
            catch (NullReferenceException)
            {
                Saw("System.NullReferenceException", "Null", "Null", "");
            }
        }

        /// Passes through two finally blocks on its way.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Finally(int i)
        {
            try
            {
                try
                {
                    ThroughFinally();
                }
                finally
                {
                    finallies++;
                }
            }
            catch (ArgumentException)
            {
                Saw("System.ArgumentException", "ThroughFinally", "Finally", "argument");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void ThroughFinally()
        {
            try
            {
                throw new ArgumentException("argument");
            }
            finally
            {
                finallies++;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Rare(int i)
        {
            try
            {
                throw new RareException("rare");
            }
            catch (RareException)
            {
                Saw("RareException", "Rare", "Rare", "rare");
            }
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
