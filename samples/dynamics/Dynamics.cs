// Calls dynamic methods that are freed right after a collection has found them on a stack.
//
// Threads run one dynamic method each, which holds an object in a local variable. After a full collection, which a heap snapshot is, the methods
// return and are freed, and new ones are made. Their names are so long that the C library gives the memory of a name back to the system as soon as it
// is freed. The heap holds objects of thousands of types, whose names a heap snapshot finds out first.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Threading;

namespace Clrscope.Samples
{
    class Own
    {
    }

    static class Dynamics
    {
        const int Threads = 20, NameLength = 300 * 1000;

        static readonly ManualResetEvent returns = new ManualResetEvent(false);
        static CountdownEvent inside;
        static long freed;

        static int Main(string[] args)
        {
            List<Array> many = Many();
            Thread thread = new Thread(Rounds) { IsBackground = true };
            thread.Start();
            Console.WriteLine("ready");
            Console.ReadLine();
            Console.WriteLine("{{\"sample\":\"dynamics\",\"types\":{0},\"freed\":{1}}}", many.Count, Volatile.Read(ref freed));
            return 0;
        }

        static List<Array> Many()
        {
            var many = new List<Array>();
            foreach (Type type in typeof(object).Assembly.GetTypes())
            {
                try
                {
                    if (!type.ContainsGenericParameters)
                    {
                        many.Add(Array.CreateInstance(type, 0));
                        many.Add(Array.CreateInstance(type, new[] { 0, 0 }));
                    }
                }
                catch (Exception)
                {
                    // There are no arrays of it.
                }
            }
            return many;
        }

        static void Rounds()
        {
            for (;;)
            {
                returns.Reset();
                inside = new CountdownEvent(Threads);
                List<Thread> threads = Enumerable.Range(0, Threads).Select(Start).ToList();
                inside.Wait();
                for (int count = GC.CollectionCount(2); GC.CollectionCount(2) == count;)
                {
                    Thread.Sleep(1);
                }
                returns.Set();
                threads.ForEach(thread => thread.Join());
                threads = null;
                for (int i = 0; i < 2; i++)
                {
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
                Volatile.Write(ref freed, freed + Threads);
                Thread.Sleep(300);
            }
        }

        static Thread Start(int number)
        {
            var thread = new Thread(() => Run(number)) { IsBackground = true };
            thread.Start();
            return thread;
        }

        static void Run(int number)
        {
            const BindingFlags All = BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public;
            string name = "Dynamic" + number + new string('n', NameLength);
            var method = new DynamicMethod(name, typeof(void), Type.EmptyTypes, typeof(Dynamics).Module, true);
            ILGenerator il = method.GetILGenerator();
            LocalBuilder local = il.DeclareLocal(typeof(object));
            il.Emit(OpCodes.Newobj, typeof(Own).GetConstructor(Type.EmptyTypes));
            il.Emit(OpCodes.Stloc, local);
            il.Emit(OpCodes.Call, typeof(Dynamics).GetMethod("Wait", All));
            il.Emit(OpCodes.Ldloc, local);
            il.Emit(OpCodes.Call, typeof(GC).GetMethod("KeepAlive"));
            il.Emit(OpCodes.Ret);
            ((Action)method.CreateDelegate(typeof(Action)))();
        }

        static void Wait()
        {
            inside.Signal();
            returns.WaitOne();
        }
    }
}
