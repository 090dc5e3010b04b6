// Runs a sample inside an application that no one here wrote: the runtime calls Initialize before the application's own
// entry point (DOTNET_STARTUP_HOOKS), and the application never gets to run.
using System;
using System.Reflection;

internal class StartupHook
{
    public static void Initialize()
    {
        string path = Environment.GetEnvironmentVariable("CLRSCOPE_SAMPLE");
        if (string.IsNullOrEmpty(path))
        {
            return;
        }
        string joined = Environment.GetEnvironmentVariable("CLRSCOPE_SAMPLE_ARGUMENTS") ?? "";
        string[] arguments = joined.Length == 0 ? new string[0] : joined.Split('\u001f');
        MethodInfo entry = Assembly.LoadFrom(path).EntryPoint;
        // A delegate rather than Invoke: no frames of reflection on the stack, no exceptions wrapped on their way out.
        var main = (Func<string[], int>)Delegate.CreateDelegate(typeof(Func<string[], int>), entry);
        Environment.Exit(main(arguments));
    }
}
