// A program whose names mislead: they steer terminals, and turn the direction of text around. A type and a method that are made
// at run time, an exception type, its message and a thread have such names.
//
// Arguments: none are read; some may be given, for their names. Ends with its standard input.
// Prints: ready

using System;
using System.Diagnostics;
using System.Reflection;
using System.Reflection.Emit;
using System.Threading;

namespace Clrscope.Samples
{
    public static class Hostile
    {
        // A control sequence introducer of 7 bits and one of 8, right-to-left override, a line separator, a tag.
        const string Name = "Evil\u202etxt\u001b[2J\u009b31m\u2028\U000E0041End";

        static volatile bool ended;

        public static void Burn()
        {
            var watch = Stopwatch.StartNew();
            while (watch.ElapsedMilliseconds < 4)
            {
            }
        }

        static int Main(string[] arguments)
        {
            var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("evil"), AssemblyBuilderAccess.Run);
            var module = assembly.DefineDynamicModule("evil");

            var error = module.DefineType(Name + "Exception", TypeAttributes.Public, typeof(Exception));
            var message = error.DefineConstructor(MethodAttributes.Public, CallingConventions.Standard, new[] { typeof(string) });
            var il = message.GetILGenerator();
            il.Emit(OpCodes.Ldarg_0);
            il.Emit(OpCodes.Ldarg_1);
            il.Emit(OpCodes.Call, typeof(Exception).GetConstructor(new[] { typeof(string) }));
            il.Emit(OpCodes.Ret);
            var errorType = error.CreateTypeInfo().AsType();

            var type = module.DefineType(Name, TypeAttributes.Public);
            var method = type.DefineMethod("Run" + Name, MethodAttributes.Public | MethodAttributes.Static, typeof(void), Type.EmptyTypes);
            il = method.GetILGenerator();
            il.Emit(OpCodes.Call, typeof(Hostile).GetMethod("Burn"));
            il.Emit(OpCodes.Ret);
            var made = type.CreateTypeInfo().AsType().GetMethod("Run" + Name);
            var run = (Action)made.CreateDelegate(typeof(Action));

            var thread = new Thread(() =>
            {
                while (!ended)
                {
                    run();
                    try
                    {
                        throw (Exception)Activator.CreateInstance(errorType, "because " + Name);
                    }
                    catch (Exception)
                    {
                    }
                    Thread.Sleep(5);
                }
            });
            thread.Name = Name;
            thread.Start();
            Thread.Sleep(200);
            Console.WriteLine("ready");
            while (Console.ReadLine() != null)
            {
            }
            ended = true;
            thread.Join();
            return 0;
        }
    }
}
