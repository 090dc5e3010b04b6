// Makes the runtime compile and load, and knows what.
//
// Compiled: dynamic methods of known IL, one large one, one generic method over a number of value types, one method that
// is called often enough to be compiled again, one that loops. Loaded: its own file again from bytes and from copies,
// assemblies made at run time, one of the framework that nothing has used before, one that a slow handler finds, some in
// contexts that are unloaded again, and some that do not exist.
//
//   --methods N     dynamic methods, 200 unless given
//   --loads N       assemblies of each kind, 5 unless given
//   --large N       statements of the large method, 4000 unless given
//   --handler N     milliseconds that the handler takes, 60 unless given
//   --gate          wait for a line before the work, and for the end of the input after it
//   --idle S        do nothing but sleep for so many seconds after `ready`
//   --repeat N      only compile: so many rounds of all dynamic methods, each round measured (nanoseconds)
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Jitter
    {
        struct A0 { public int X; }
        struct A1 { public int X; }
        struct A2 { public int X; }
        struct A3 { public int X; }
        struct A4 { public int X; }
        struct A5 { public int X; }
        struct A6 { public int X; }
        struct A7 { public int X; }

        /// A type that the runtime loads once for each argument.
        sealed class Holder<T>
        {
            public T Value;
            public Holder(T value) { Value = value; }
        }

        static int Main(string[] args)
        {
            int methods = (int)Number(args, "--methods", 200);
            int loads = (int)Number(args, "--loads", 5);
            int statements = (int)Number(args, "--large", 4000);
            int handler = (int)Number(args, "--handler", 60);
            int repeat = (int)Number(args, "--repeat", 0);
            bool gate = args.Contains("--gate");
            if (args.Contains("--idle"))
            {
                Warm();
                Console.WriteLine("ready");
                Thread.Sleep((int)(Number(args, "--idle", 5) * 1000));
                Console.WriteLine("{\"sample\":\"jitter\"}");
                return 0;
            }
            if (repeat > 0)
            {
                Compile(methods, "warm");
                Console.WriteLine("ready");
                if (gate)
                {
                    Console.ReadLine();
                }
                var rounds = new List<long>();
                for (int round = 0; round < repeat; round++)
                {
                    long from = Stopwatch.GetTimestamp();
                    Compile(methods, "dynamic");
                    rounds.Add(Since(from));
                }
                Console.WriteLine("{\"sample\":\"jitter\",\"rounds\":[" + string.Join(",", rounds) + "]}");
                return 0;
            }
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            var clock = Stopwatch.StartNew();
            string work = Path.Combine(Path.GetTempPath(), "clrscope-jitter-" + Process.GetCurrentProcess().Id);
            Directory.CreateDirectory(work);
            try
            {
                var parts = new List<string>();
                int il = Compile(methods, "dynamic");
                parts.Add(Text("\"dynamic\":{{\"count\":{0},\"il\":{1}}}", methods, il));
                parts.Add(Large(statements));
                parts.Add(Text("\"generic\":{{\"method\":\"Instantiate\",\"count\":{0},\"il\":{1}}}", Generics(), Size("Instantiate")));
                Heat();
                parts.Add(Text("\"hot\":{{\"method\":\"Hot\",\"il\":{0}}}", Size("Hot")));
                Loop(200000);
                parts.Add(Text("\"loop\":{{\"method\":\"Loop\",\"il\":{0}}}", Size("Loop")));
                parts.Add(FromBytes(loads));
                parts.Add(FromFiles(loads, work));
                parts.Add(Emitted(loads));
                parts.Add(Failing(loads));
                parts.Add(Handled(handler));
                parts.Add(Unloaded(loads));
                parts.Add(OfFramework());
                Console.WriteLine(Text("{{\"sample\":\"jitter\",\"seconds\":{0:F3},", clock.Elapsed.TotalSeconds) +
                    string.Join(",", parts) + "}");
            }
            finally
            {
                Directory.Delete(work, true);
            }
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        static string Text(string format, params object[] values)
        {
            return string.Format(CultureInfo.InvariantCulture, format, values);
        }

        static long Since(long from)
        {
            return (long)((Stopwatch.GetTimestamp() - from) * (1e9 / Stopwatch.Frequency));
        }

        static void Warm()
        {
            for (int i = 0; i < 3; i++)
            {
                Heat();
            }
        }

        // What is compiled

        /// IL bytes of each method.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Compile(int count, string name)
        {
            int size = 0;
            for (int i = 0; i < count; i++)
            {
                var method = new DynamicMethod(name + "_" + i, typeof(int), new[] { typeof(int) }, typeof(Jitter).Module);
                ILGenerator il = method.GetILGenerator();
                il.Emit(OpCodes.Ldarg_0);
                il.Emit(OpCodes.Ldc_I4, 100000 + i);
                il.Emit(OpCodes.Add);
                il.Emit(OpCodes.Ret);
                size = il.ILOffset;
                var run = (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
                if (run(1) != 100001 + i)
                {
                    throw new InvalidOperationException();
                }
            }
            return size;
        }

        /// A method that is not dynamic, so that the runtime tells the size of its IL; too large to be optimized.
        static string Large(int statements)
        {
            var builder = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Large.Code"), AssemblyBuilderAccess.Run);
            TypeBuilder type = builder.DefineDynamicModule("module").DefineType("Made.Large", TypeAttributes.Public);
            MethodBuilder method = type.DefineMethod(
                "LargeMethod", MethodAttributes.Public | MethodAttributes.Static, typeof(int), new[] { typeof(int) });
            ILGenerator il = method.GetILGenerator();
            il.DeclareLocal(typeof(int));
            for (int i = 0; i < statements; i++)
            {
                il.Emit(OpCodes.Ldloc_0);
                il.Emit(OpCodes.Ldarg_0);
                il.Emit(i % 2 == 0 ? OpCodes.Xor : OpCodes.Mul);
                il.Emit(OpCodes.Stloc_0);
            }
            il.Emit(OpCodes.Ldloc_0);
            il.Emit(OpCodes.Ret);
            int size = il.ILOffset;
            MethodInfo made = type.CreateTypeInfo().GetMethod("LargeMethod");
            var run = (Func<int, int>)made.CreateDelegate(typeof(Func<int, int>));
            long from = Stopwatch.GetTimestamp();
            run(3);
            return Text("\"large\":{{\"method\":\"LargeMethod\",\"il\":{0},\"took_ns\":{1}}}", size, Since(from));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Instantiate<T>(T value)
        {
            return new Holder<T>(value).Value.GetHashCode() & 0;
        }

        static int Generics()
        {
            return 8 + Instantiate(new A0()) + Instantiate(new A1()) + Instantiate(new A2()) + Instantiate(new A3())
                + Instantiate(new A4()) + Instantiate(new A5()) + Instantiate(new A6()) + Instantiate(new A7());
        }

        /// IL bytes of one of these methods.
        static int Size(string method)
        {
            const BindingFlags Any = BindingFlags.Static | BindingFlags.NonPublic;
            return typeof(Jitter).GetMethod(method, Any).GetMethodBody().GetILAsByteArray().Length;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Hot(int value)
        {
            return value * 31 + (value >> 3);
        }

        /// Calls it often enough, and until the runtime has had the time to compile it again, twice where it does.
        static int Heat()
        {
            int value = 1;
            for (int round = 0; round < 12; round++)
            {
                for (int i = 0; i < 40; i++)
                {
                    value = Hot(value);
                }
                Thread.Sleep(60);
            }
            return value;
        }

        /// Runs long enough within one call to be replaced while it runs, where the runtime does that.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Loop(int times)
        {
            int sum = 0;
            for (int i = 0; i < times; i++)
            {
                sum = sum * 3 + i;
            }
            return sum;
        }

        // What is loaded

        static byte[] Own()
        {
            return File.ReadAllBytes(typeof(Jitter).Assembly.Location);
        }

        static string FromBytes(int count)
        {
            byte[] bytes = Own();
            for (int i = 0; i < count; i++)
            {
                Assembly.Load(bytes);
            }
            return Text("\"bytes\":{{\"assembly\":\"{0}\",\"count\":{1}}}", typeof(Jitter).Assembly.GetName().Name, count);
        }

        static string FromFiles(int count, string folder)
        {
            var paths = new List<string>();
            for (int i = 0; i < count; i++)
            {
                string path = Path.Combine(folder, "copy-" + i + ".dll");
                File.WriteAllBytes(path, Own());
                Assembly.LoadFile(path);
                paths.Add("\"" + path + "\"");
            }
            return "\"files\":[" + string.Join(",", paths) + "]";
        }

        static string Emitted(int count)
        {
            var names = new List<string>();
            for (int i = 0; i < count; i++)
            {
                var builder = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Emitted.At.RunTime" + i), AssemblyBuilderAccess.Run);
                builder.DefineDynamicModule("module").DefineType("T" + i).CreateTypeInfo();
                names.Add("\"Emitted.At.RunTime" + i + "\"");
            }
            return "\"emitted\":[" + string.Join(",", names) + "]";
        }

        static string Failing(int count)
        {
            var names = new List<string>();
            for (int i = 0; i < count; i++)
            {
                try
                {
                    Assembly.Load("No.Such.Assembly" + i);
                }
                catch (FileNotFoundException)
                {
                    names.Add("\"No.Such.Assembly" + i + "\"");
                }
            }
            return "\"failed\":[" + string.Join(",", names) + "]";
        }

        static string Handled(int milliseconds)
        {
            ResolveEventHandler handler = SlowHandler;
            sleep = milliseconds;
            AppDomain.CurrentDomain.AssemblyResolve += handler;
            long from = Stopwatch.GetTimestamp();
            Assembly.Load("Found.By.Handler");
            long took = Since(from);
            AppDomain.CurrentDomain.AssemblyResolve -= handler;
            return Text("\"handled\":{{\"assembly\":\"Found.By.Handler\",\"handler\":\"SlowHandler\",\"took_ns\":{0}}}", took);
        }

        static int sleep;

        static Assembly SlowHandler(object sender, ResolveEventArgs request)
        {
            if (!request.Name.StartsWith("Found.By.Handler", StringComparison.Ordinal))
            {
                return null;
            }
            Thread.Sleep(sleep);
            return AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Found.By.Handler"), AssemblyBuilderAccess.Run);
        }

        static string Unloaded(int count)
        {
            WeakReference[] contexts = InContexts(count);
            var clock = Stopwatch.StartNew();
            while (contexts.Any(context => context.IsAlive) && clock.Elapsed.TotalSeconds < 20)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(10);
            }
            // The runtime frees them a moment after their last object.
            GC.Collect();
            Thread.Sleep(200);
            return Text("\"unloaded\":{{\"loaded\":{0},\"gone\":{1}}}", count, contexts.Count(context => !context.IsAlive));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static WeakReference[] InContexts(int count)
        {
            var contexts = new WeakReference[count];
            for (int i = 0; i < count; i++)
            {
                var context = new AssemblyLoadContext("plugin-" + i, true);
                context.LoadFromStream(new MemoryStream(Own()));
                context.Unload();
                contexts[i] = new WeakReference(context);
            }
            return contexts;
        }

        static string OfFramework()
        {
            string name = TouchXml();
            return Text("\"framework\":{{\"assembly\":\"{0}\",\"by\":\"OfFramework\"}}", name);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static string TouchXml()
        {
            return new System.Xml.Linq.XElement("a").GetType().Assembly.GetName().Name;
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
