// Loads copies of the runtime's largest assemblies and resolves every member that they refer to, on all threads, over and over. Checks that each is found
// as it was the first time: whatever is done to the metadata of the modules meanwhile.
//
//   --threads N   threads that resolve (default 2)
//   --rounds N    copies at most: they stay in memory (default 20)
//
// For runtimes whose assemblies are files. Says `ready` when it knows what is to be found, and prints at the end of standard input how many rounds and members that were, and how many were not found
// as before.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.Loader;
using System.Threading;

namespace Clrscope.Samples
{
    // Assemblies that refer to each other find copies of this context.
    public sealed class Copies : AssemblyLoadContext
    {
        public static readonly string Folder = Path.GetDirectoryName(typeof(object).Assembly.Location);

        protected override Assembly Load(AssemblyName name)
        {
            string path = Path.Combine(Folder, name.Name + ".dll");
            // Of this one there is but one.
            return name.Name == "System.Private.CoreLib" || !File.Exists(path) ? null : LoadFromAssemblyPath(path);
        }
    }

    public static class Resolver
    {
        const int MemberRef = 0x0A000000;
        const int Shown = 10;
        // Of so many assemblies: the larger one is, the longer it takes to do something to its metadata.
        const int Largest = 12;

        // For what belongs to generic types and methods.
        static readonly Type[] some = Enumerable.Repeat(typeof(object), 8).ToArray();

        static long members, wrong;
        static bool over;

        // Why it cannot be resolved, or null.
        static string Fails(Module module, int token)
        {
            try { module.ResolveMember(token, some, some); return null; }
            catch (ArgumentOutOfRangeException) { throw; }
            catch (Exception why) { return why.GetType().Name + ": " + why.Message; }
        }

        // Of all modules by turns, so that each is in use all the time.
        static void Resolve(Module[] modules, List<string>[] before, int first, int step)
        {
            long count = 0;
            bool any = true;
            for (int row = first; any && !Volatile.Read(ref over); row += step)
            {
                any = false;
                for (int at = 0; at < modules.Length; at++)
                {
                    if (row >= before[at].Count) continue;
                    any = true;
                    count++;
                    string fails = Fails(modules[at], MemberRef | row + 1);
                    if (fails == before[at][row]) continue;
                    if (Interlocked.Increment(ref wrong) <= Shown)
                    {
                        Console.Error.WriteLine(modules[at].Name + " " + (MemberRef | row + 1).ToString("x8") + ": " + fails + ", before: " + before[at][row]);
                    }
                }
            }
            Interlocked.Add(ref members, count);
        }

        static List<string> All(Module module)
        {
            var all = new List<string>();
            for (int row = 1; ; row++)
            {
                try { all.Add(Fails(module, MemberRef | row)); }
                catch (ArgumentOutOfRangeException) { return all; }
            }
        }

        static Module[] Copy(string[] files)
        {
            var context = new Copies();
            return files.Select(file => context.LoadFromAssemblyPath(file).ManifestModule).ToArray();
        }

        public static int Main(string[] arguments)
        {
            int threads = 2, rounds = 20;
            for (int at = 0; at + 1 < arguments.Length; at += 2)
            {
                int value = int.Parse(arguments[at + 1], CultureInfo.InvariantCulture);
                if (arguments[at] == "--threads") threads = value;
                if (arguments[at] == "--rounds") rounds = value;
            }
            var files = Directory.GetFiles(Copies.Folder, "System.*.dll").Where(file => Path.GetFileNameWithoutExtension(file) != "System.Private.CoreLib")
                .OrderByDescending(file => new FileInfo(file).Length).Take(Largest).ToArray();
            var before = Copy(files).Select(All).ToArray();
            Console.WriteLine("ready");
            int done = 0;
            var worker = new Thread(() =>
            {
                for (; done < rounds && !Volatile.Read(ref over); done++)
                {
                    var modules = Copy(files);
                    var resolvers = Enumerable.Range(0, threads).Select(index => new Thread(() => Resolve(modules, before, index, threads)) { Name = "resolver-" + index }).ToList();
                    resolvers.ForEach(thread => thread.Start());
                    resolvers.ForEach(thread => thread.Join());
                }
            });
            worker.Start();
            while (Console.ReadLine() != null) { }
            Volatile.Write(ref over, true);
            worker.Join();
            int unresolved = before.Sum(all => all.Count(why => why != null));
            Console.WriteLine("{\"rounds\":" + done + ",\"members\":" + members + ",\"unresolved\":" + unresolved + ",\"wrong\":" + wrong + "}");
            return wrong == 0 ? 0 : 3;
        }
    }
}
