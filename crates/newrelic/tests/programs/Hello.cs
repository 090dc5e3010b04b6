using System;
using System.Runtime.CompilerServices;
public static class Hello {
  [MethodImpl(MethodImplOptions.NoInlining)] static void Greet(string whom) { if (whom != "") Console.WriteLine("Hello, " + whom); }
  public static int Main(string[] arguments) { if (arguments.Length > 0) { Greet(arguments[0]); return 0; } Greet("world"); return 0; }
}
