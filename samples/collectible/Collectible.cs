// Throws one exception of each of many types that are collected soon after, and says how many it threw.
//
//   --count N     how many types (default 400)
//   --seconds N   go on for this long instead of a given number of types
//   --keep N      how many of the last types stay loaded (default 0)
//   --gate        wait for the line `go` on standard input after `ready`, and for one more line or its end before leaving
//
// Each type is the only one of an assembly that is built in memory (RunAndCollect). Every other one is thrown and caught by a method of its
// own, so that its code is unloaded, too; that method also allocates arrays of its type. The others are thrown and caught by the program.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;

namespace Clrscope.Samples
{
    static class Collectible
    {
        /// Bytes of arrays that each type of its own method allocates: some allocation events for every type.
        const int Elements = 16 * 1024, Arrays = 4;

        static readonly Queue<Type> kept = new Queue<Type>();
        static long thrown, own;

        static int Main(string[] args)
        {
            long count = (long)Number(args, "--count", 400);
            double seconds = Number(args, "--seconds", 0);
            int keep = (int)Number(args, "--keep", 0);
            bool gate = args.Contains("--gate");
            Round(0);
            Round(1);
            thrown = 0;
            own = 0;
            Console.WriteLine("ready");
            if (gate)
            {
                Console.ReadLine();
            }
            var clock = Stopwatch.StartNew();
            for (int i = 2; seconds > 0 ? clock.Elapsed.TotalSeconds < seconds : thrown < count; i++)
            {
                kept.Enqueue(Round(i));
                while (kept.Count > keep)
                {
                    kept.Dequeue();
                }
                if (i % 4 == 0)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
            }
            Console.WriteLine(string.Format(CultureInfo.InvariantCulture,
                "{{\"sample\":\"collectible\",\"total\":{0},\"caught_by_themselves\":{1},\"seconds\":{2:F3}}}",
                thrown, own, clock.Elapsed.TotalSeconds));
            if (gate)
            {
                Console.ReadLine();
            }
            return 0;
        }

        /// Makes a type and throws one object of it.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static Type Round(int number)
        {
            Type type = Make("Collectible" + number);
            if (number % 2 == 0)
            {
                Throw((Exception)Activator.CreateInstance(type));
            }
            else
            {
                type.GetMethod("Run").Invoke(null, null);
                own++;
            }
            thrown++;
            return type;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Throw(Exception exception)
        {
            try
            {
                throw exception;
            }
            catch (Exception)
            {
            }
        }

        static Type Make(string name)
        {
            AssemblyBuilder assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName(name), AssemblyBuilderAccess.RunAndCollect);
            TypeBuilder type = assembly.DefineDynamicModule(name).DefineType(name, TypeAttributes.Public, typeof(Exception));
            ConstructorBuilder constructor = type.DefineDefaultConstructor(MethodAttributes.Public);
            ILGenerator il = type.DefineMethod("Run", MethodAttributes.Public | MethodAttributes.Static, typeof(void), Type.EmptyTypes).GetILGenerator();
            for (int i = 0; i < Arrays; i++)
            {
                il.Emit(OpCodes.Ldc_I4, Elements);
                il.Emit(OpCodes.Newarr, type);
                il.Emit(OpCodes.Pop);
            }
            il.BeginExceptionBlock();
            il.Emit(OpCodes.Newobj, constructor);
            il.Emit(OpCodes.Throw);
            il.BeginCatchBlock(type);
            il.Emit(OpCodes.Pop);
            il.EndExceptionBlock();
            il.Emit(OpCodes.Ret);
            return type.CreateType();
        }

        static double Number(string[] args, string name, double fallback)
        {
            int at = Array.IndexOf(args, name);
            return at >= 0 && at + 1 < args.Length ? double.Parse(args[at + 1], CultureInfo.InvariantCulture) : fallback;
        }
    }
}
