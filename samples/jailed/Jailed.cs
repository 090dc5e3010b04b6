using System;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Threading;

namespace Clrscope.Samples
{
    /// <summary>
    /// Changes its root directory once it runs, as some services do: jailed DIR SECONDS. Needs root.
    /// Its diagnostic socket stays where it was before.
    /// </summary>
    static class Jailed
    {
        [DllImport("libc", EntryPoint = "chroot", SetLastError = true)]
        static extern int ChangeRoot(string path);

        [DllImport("libc", EntryPoint = "chdir", SetLastError = true)]
        static extern int ChangeFolder(string path);

        static long rounds;

        static int Main(string[] args)
        {
            // Everything that is used later is loaded before the files are gone.
            double seconds = double.Parse(args[1]);
            Console.WriteLine("starting");
            Spin(200);
            Thread.Sleep(100);
            if (ChangeFolder(args[0]) != 0 || ChangeRoot(".") != 0)
            {
                Console.WriteLine("cannot change the root: " + Marshal.GetLastWin32Error());
                return 1;
            }
            Console.WriteLine("ready");
            Spin(seconds * 1000);
            Console.WriteLine("{\"sample\":\"jailed\",\"rounds\":" + rounds + "}");
            return 0;
        }

        static void Spin(double milliseconds)
        {
            var watch = Stopwatch.StartNew();
            while (watch.ElapsedMilliseconds < milliseconds)
            {
                rounds++;
            }
        }
    }
}
