// Methods whose names are hard to write: nesting, generics, by-reference and array parameters, pointers, async,
// lambdas, dynamic methods. Each runs once and stays in memory until the end.
using System;
using System.Collections.Generic;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Threading.Tasks;

public static class Global
{
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void NoNamespace() { }
}

namespace Names.Inner
{
    public delegate int Combine(int left, int right);

    public enum Colour { Red }

    public struct Pair<TFirst, TSecond>
    {
        public TFirst First;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public TSecond Swap(TFirst first, TSecond second) { First = first; return second; }
    }

    [Obsolete("kept for tests")]
    public class Constants
    {
        public const int Number = -7;
        public const string Text = "größer";
        public const double Real = 2.5;
        public const object Nothing = null;
        public event Combine Happened;
        public static int Count;
        [System.Runtime.InteropServices.DllImport("libc", EntryPoint = "getpid")]
        public static extern int Pid();
        public static void Optional(int given = 3, params string[] others) { }
        public int Use() { return Happened == null ? Count : Happened(1, 2); }
    }

    public class Thrower<T>
    {
        public int Thrown;

        // What it is instantiated with is found through `this`, which is needed to the end.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public bool Throws(T value, List<string> others)
        {
            try { throw new InvalidOperationException("the message: größer"); }
            catch (InvalidOperationException) { Thrown++; return value != null; }
        }
    }

    public class Outer<T>
    {
        public class Middle
        {
            public class Leaf<TKey, TValue>
            {
                [MethodImpl(MethodImplOptions.NoInlining)]
                public void Deep(T t, TKey key, Dictionary<TKey, List<TValue>> values) { }
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public TResult Convert<TResult>(T value, Func<T, TResult> with) { return with(value); }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void Plain(T value) { }
    }

    public class Program
    {
        public int Property { [MethodImpl(MethodImplOptions.NoInlining)] get; [MethodImpl(MethodImplOptions.NoInlining)] set; }

        public int this[string key, int index] { [MethodImpl(MethodImplOptions.NoInlining)] get { return index; } }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static Program operator +(Program left, Program right) { return left; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Keywords(bool a, char b, sbyte c, byte d, short e, ushort f, int g, uint h, long i, ulong j,
            float k, double l, decimal m, string n, object o, IntPtr p, UIntPtr q) { }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Passing(ref int a, out string b, in DateTime c, ref List<int[]> d, DateTime e) { b = null; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Arrays(int[] a, int[][] b, int[,] c, int[][,,] d, List<string>[] e, string[,][] f) { }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static unsafe void Pointers(int* a, void** b, Colour* c) { }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Nullables(int? a, Colour? b, (int, string) c, Pair<int?, Outer<string>.Middle> d) { }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static T Generic<T, TOther>(T value, TOther[] others, ref T again) where TOther : struct { return value; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int VarArgs(int first, __arglist) { return first; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Größe(string 名前) { }

        static async Task<int> Async(int by)
        {
            await Task.Yield();
            return by + 1;
        }

        static IEnumerable<T> Iterate<T>(T one)
        {
            yield return one;
        }

        static int Lambdas(int captured)
        {
            Func<int, int> closure = x => x + captured;
            Combine plain = (x, y) => x - y;
            return closure(1) + plain(1, 2);
        }

        static Func<int, int> Dynamic()
        {
            var method = new DynamicMethod("MadeAtRunTime", typeof(int), new[] { typeof(int) }, typeof(Program).Module);
            var il = method.GetILGenerator();
            il.Emit(OpCodes.Ldarg_0);
            il.Emit(OpCodes.Ldc_I4_1);
            il.Emit(OpCodes.Add);
            il.Emit(OpCodes.Ret);
            return (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
        }

        static Func<List<string>, DateTime, int[][,], int> DynamicWithTypes()
        {
            var types = new[] { typeof(List<string>), typeof(DateTime), typeof(int[][,]) };
            var method = new DynamicMethod("WithTypes", typeof(int), types, typeof(Program).Module);
            var il = method.GetILGenerator();
            il.Emit(OpCodes.Ldc_I4_5);
            il.Emit(OpCodes.Ret);
            return (Func<List<string>, DateTime, int[][,], int>)method.CreateDelegate(
                typeof(Func<List<string>, DateTime, int[][,], int>));
        }

        // A profiler gives it another body.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Answer() { return 41; }

        static readonly List<object> Kept = new List<object>();

        static unsafe int Main(string[] arguments)
        {
            Global.NoNamespace();
            new Pair<int, string>().Swap(1, "");
            new Pair<string, string>().Swap("", "");
            new Outer<int>.Middle.Leaf<string, DateTime>().Deep(1, "", null);
            new Outer<byte>.Middle.Leaf<long, short>().Deep(1, 2, null);
            new Outer<int>().Convert<double>(1, x => x);
            new Outer<string>().Convert<object>("", x => x);
            new Outer<List<int>>().Plain(null);
            new Outer<Pair<int, long>>().Plain(default(Pair<int, long>));
            var program = new Program { Property = 1 };
            program.Property += program["", 1];
            program += program;
            Keywords(true, 'b', 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "n", null, IntPtr.Zero, UIntPtr.Zero);
            int number = 1;
            var list = new List<int[]>();
            string text;
            Passing(ref number, out text, DateTime.MinValue, ref list, DateTime.MinValue);
            Arrays(null, null, null, null, null, null);
            Pointers(null, null, null);
            Nullables(null, null, (1, ""), default(Pair<int?, Outer<string>.Middle>));
            Generic<int, byte>(1, null, ref number);
            Generic<string, byte>("", null, ref text);
            Größe("");
            Async(1).GetAwaiter().GetResult();
            foreach (var one in Iterate("x")) { }
            foreach (var one in Iterate(1.5)) { }
            Lambdas(number);
            var dynamicMethod = Dynamic();
            var withTypes = DynamicWithTypes();
            Kept.Add(dynamicMethod);
            Kept.Add(withTypes);
            var sum = dynamicMethod(41) + withTypes(null, DateTime.MinValue, null);
            new Thrower<string>().Throws("", null);
            Console.WriteLine("answer " + Answer());
            Console.WriteLine("ready");
            Console.Out.Flush();
            if (Environment.GetEnvironmentVariable("NAMES_WAIT") != null) Console.ReadLine();
            return sum == 47 ? 0 : 1;
        }
    }
}
