// Greets the one that is named. With two arguments it first puts the file of the first in place of that of the second.
using System;
using System.Runtime.CompilerServices;
public static class Hello {
  [MethodImpl(MethodImplOptions.NoInlining)] static void Greet(string whom) { if (whom != "") Console.WriteLine("Hello, " + whom); }
  [MethodImpl(MethodImplOptions.NoInlining)] static void Replace(string from, string to) { System.IO.File.Copy(from, to, true); }
  public static int Main(string[] arguments) {
    if (arguments.Length == 2) Replace(arguments[0], arguments[1]);
    Greet(arguments.Length == 1 ? arguments[0] : "world");
    return 0;
  }
}
