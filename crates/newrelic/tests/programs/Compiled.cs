// Has many methods compiled. "memory" prints how many bytes of native memory are in use after each of two equal amounts of methods
// that no point names. "first" has eight threads call two hundred methods for the first time while points for them come and go, and
// checks what they return.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
namespace Compiled {
  struct Of<A, B, C> { }
  static class Generic<A, B> where A : struct where B : struct { public static int Method(A a, B b) { return 1; } }
  static class First {
    public static int M0(int n) { return n + 0; } public static int M1(int n) { return n + 1; } public static int M2(int n) { return n + 2; } public static int M3(int n) { return n + 3; } public static int M4(int n) { return n + 4; }
    public static int M5(int n) { return n + 5; } public static int M6(int n) { return n + 6; } public static int M7(int n) { return n + 7; } public static int M8(int n) { return n + 8; } public static int M9(int n) { return n + 9; }
    public static int M10(int n) { return n + 10; } public static int M11(int n) { return n + 11; } public static int M12(int n) { return n + 12; } public static int M13(int n) { return n + 13; } public static int M14(int n) { return n + 14; }
    public static int M15(int n) { return n + 15; } public static int M16(int n) { return n + 16; } public static int M17(int n) { return n + 17; } public static int M18(int n) { return n + 18; } public static int M19(int n) { return n + 19; }
    public static int M20(int n) { return n + 20; } public static int M21(int n) { return n + 21; } public static int M22(int n) { return n + 22; } public static int M23(int n) { return n + 23; } public static int M24(int n) { return n + 24; }
    public static int M25(int n) { return n + 25; } public static int M26(int n) { return n + 26; } public static int M27(int n) { return n + 27; } public static int M28(int n) { return n + 28; } public static int M29(int n) { return n + 29; }
    public static int M30(int n) { return n + 30; } public static int M31(int n) { return n + 31; } public static int M32(int n) { return n + 32; } public static int M33(int n) { return n + 33; } public static int M34(int n) { return n + 34; }
    public static int M35(int n) { return n + 35; } public static int M36(int n) { return n + 36; } public static int M37(int n) { return n + 37; } public static int M38(int n) { return n + 38; } public static int M39(int n) { return n + 39; }
    public static int M40(int n) { return n + 40; } public static int M41(int n) { return n + 41; } public static int M42(int n) { return n + 42; } public static int M43(int n) { return n + 43; } public static int M44(int n) { return n + 44; }
    public static int M45(int n) { return n + 45; } public static int M46(int n) { return n + 46; } public static int M47(int n) { return n + 47; } public static int M48(int n) { return n + 48; } public static int M49(int n) { return n + 49; }
    public static int M50(int n) { return n + 50; } public static int M51(int n) { return n + 51; } public static int M52(int n) { return n + 52; } public static int M53(int n) { return n + 53; } public static int M54(int n) { return n + 54; }
    public static int M55(int n) { return n + 55; } public static int M56(int n) { return n + 56; } public static int M57(int n) { return n + 57; } public static int M58(int n) { return n + 58; } public static int M59(int n) { return n + 59; }
    public static int M60(int n) { return n + 60; } public static int M61(int n) { return n + 61; } public static int M62(int n) { return n + 62; } public static int M63(int n) { return n + 63; } public static int M64(int n) { return n + 64; }
    public static int M65(int n) { return n + 65; } public static int M66(int n) { return n + 66; } public static int M67(int n) { return n + 67; } public static int M68(int n) { return n + 68; } public static int M69(int n) { return n + 69; }
    public static int M70(int n) { return n + 70; } public static int M71(int n) { return n + 71; } public static int M72(int n) { return n + 72; } public static int M73(int n) { return n + 73; } public static int M74(int n) { return n + 74; }
    public static int M75(int n) { return n + 75; } public static int M76(int n) { return n + 76; } public static int M77(int n) { return n + 77; } public static int M78(int n) { return n + 78; } public static int M79(int n) { return n + 79; }
    public static int M80(int n) { return n + 80; } public static int M81(int n) { return n + 81; } public static int M82(int n) { return n + 82; } public static int M83(int n) { return n + 83; } public static int M84(int n) { return n + 84; }
    public static int M85(int n) { return n + 85; } public static int M86(int n) { return n + 86; } public static int M87(int n) { return n + 87; } public static int M88(int n) { return n + 88; } public static int M89(int n) { return n + 89; }
    public static int M90(int n) { return n + 90; } public static int M91(int n) { return n + 91; } public static int M92(int n) { return n + 92; } public static int M93(int n) { return n + 93; } public static int M94(int n) { return n + 94; }
    public static int M95(int n) { return n + 95; } public static int M96(int n) { return n + 96; } public static int M97(int n) { return n + 97; } public static int M98(int n) { return n + 98; } public static int M99(int n) { return n + 99; }
    public static int M100(int n) { return n + 100; } public static int M101(int n) { return n + 101; } public static int M102(int n) { return n + 102; } public static int M103(int n) { return n + 103; } public static int M104(int n) { return n + 104; }
    public static int M105(int n) { return n + 105; } public static int M106(int n) { return n + 106; } public static int M107(int n) { return n + 107; } public static int M108(int n) { return n + 108; } public static int M109(int n) { return n + 109; }
    public static int M110(int n) { return n + 110; } public static int M111(int n) { return n + 111; } public static int M112(int n) { return n + 112; } public static int M113(int n) { return n + 113; } public static int M114(int n) { return n + 114; }
    public static int M115(int n) { return n + 115; } public static int M116(int n) { return n + 116; } public static int M117(int n) { return n + 117; } public static int M118(int n) { return n + 118; } public static int M119(int n) { return n + 119; }
    public static int M120(int n) { return n + 120; } public static int M121(int n) { return n + 121; } public static int M122(int n) { return n + 122; } public static int M123(int n) { return n + 123; } public static int M124(int n) { return n + 124; }
    public static int M125(int n) { return n + 125; } public static int M126(int n) { return n + 126; } public static int M127(int n) { return n + 127; } public static int M128(int n) { return n + 128; } public static int M129(int n) { return n + 129; }
    public static int M130(int n) { return n + 130; } public static int M131(int n) { return n + 131; } public static int M132(int n) { return n + 132; } public static int M133(int n) { return n + 133; } public static int M134(int n) { return n + 134; }
    public static int M135(int n) { return n + 135; } public static int M136(int n) { return n + 136; } public static int M137(int n) { return n + 137; } public static int M138(int n) { return n + 138; } public static int M139(int n) { return n + 139; }
    public static int M140(int n) { return n + 140; } public static int M141(int n) { return n + 141; } public static int M142(int n) { return n + 142; } public static int M143(int n) { return n + 143; } public static int M144(int n) { return n + 144; }
    public static int M145(int n) { return n + 145; } public static int M146(int n) { return n + 146; } public static int M147(int n) { return n + 147; } public static int M148(int n) { return n + 148; } public static int M149(int n) { return n + 149; }
    public static int M150(int n) { return n + 150; } public static int M151(int n) { return n + 151; } public static int M152(int n) { return n + 152; } public static int M153(int n) { return n + 153; } public static int M154(int n) { return n + 154; }
    public static int M155(int n) { return n + 155; } public static int M156(int n) { return n + 156; } public static int M157(int n) { return n + 157; } public static int M158(int n) { return n + 158; } public static int M159(int n) { return n + 159; }
    public static int M160(int n) { return n + 160; } public static int M161(int n) { return n + 161; } public static int M162(int n) { return n + 162; } public static int M163(int n) { return n + 163; } public static int M164(int n) { return n + 164; }
    public static int M165(int n) { return n + 165; } public static int M166(int n) { return n + 166; } public static int M167(int n) { return n + 167; } public static int M168(int n) { return n + 168; } public static int M169(int n) { return n + 169; }
    public static int M170(int n) { return n + 170; } public static int M171(int n) { return n + 171; } public static int M172(int n) { return n + 172; } public static int M173(int n) { return n + 173; } public static int M174(int n) { return n + 174; }
    public static int M175(int n) { return n + 175; } public static int M176(int n) { return n + 176; } public static int M177(int n) { return n + 177; } public static int M178(int n) { return n + 178; } public static int M179(int n) { return n + 179; }
    public static int M180(int n) { return n + 180; } public static int M181(int n) { return n + 181; } public static int M182(int n) { return n + 182; } public static int M183(int n) { return n + 183; } public static int M184(int n) { return n + 184; }
    public static int M185(int n) { return n + 185; } public static int M186(int n) { return n + 186; } public static int M187(int n) { return n + 187; } public static int M188(int n) { return n + 188; } public static int M189(int n) { return n + 189; }
    public static int M190(int n) { return n + 190; } public static int M191(int n) { return n + 191; } public static int M192(int n) { return n + 192; } public static int M193(int n) { return n + 193; } public static int M194(int n) { return n + 194; }
    public static int M195(int n) { return n + 195; } public static int M196(int n) { return n + 196; } public static int M197(int n) { return n + 197; } public static int M198(int n) { return n + 198; } public static int M199(int n) { return n + 199; }
  }
  static class Program {
    [StructLayout(LayoutKind.Sequential)] struct Mallinfo { public UIntPtr arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost; }
    [DllImport("libc")] static extern Mallinfo mallinfo2();
    delegate int Plain();
    delegate int Add([MarshalAs(UnmanagedType.LPUTF8Str)] string name, [MarshalAs(UnmanagedType.LPUTF8Str)] string xml);

    // Each instantiation over value types is a method of its own for the runtime.
    static void Compile(Type[] types) {
      foreach (var a in types) foreach (var b in types) RuntimeHelpers.PrepareMethod(typeof(Generic<,>).GetMethod("Method").MethodHandle, new[] { a.TypeHandle, b.TypeHandle });
    }
    static long InUse() { var all = mallinfo2(); return (long)all.uordblks + (long)all.hblkhd; }
    static int Memory() {
      var basic = new[] { typeof(bool), typeof(byte), typeof(short), typeof(int), typeof(long), typeof(float), typeof(double), typeof(char), typeof(decimal), typeof(DateTime) };
      Func<Type, Type[]> types = last => basic.SelectMany(a => basic.Take(5).Select(b => typeof(Of<,,>).MakeGenericType(a, b, last))).ToArray();
      var used = new List<long>();
      foreach (var last in new[] { typeof(sbyte), typeof(uint), typeof(ulong) }) { Compile(types(last)); GC.Collect(); GC.WaitForPendingFinalizers(); used.Add(InUse()); }
      Console.WriteLine("MEMORY {0} {1}", used[1] - used[0], used[2] - used[1]);
      return 0;
    }
    static int FirstCalls() {
      var library = NativeLibrary.Load(Environment.GetEnvironmentVariable("CORECLR_PROFILER_PATH"));
      var add = Marshal.GetDelegateForFunctionPointer<Add>(NativeLibrary.GetExport(library, "AddCustomInstrumentation"));
      var apply = Marshal.GetDelegateForFunctionPointer<Plain>(NativeLibrary.GetExport(library, "ApplyCustomInstrumentation"));
      var methods = typeof(First).GetMethods(BindingFlags.Public | BindingFlags.Static | BindingFlags.DeclaredOnly);
      var calls = methods.Select(m => (Func<int, int>)Delegate.CreateDelegate(typeof(Func<int, int>), m)).ToArray();
      var numbers = methods.Select(m => int.Parse(m.Name.Substring(1))).ToArray();
      string xml = "<extension><instrumentation><tracerFactory><match assemblyName=\"Compiled\" className=\"Compiled.First\">" + string.Concat(methods.Select(m => "<exactMethodMatcher methodName=\"" + m.Name + "\"/>")) + "</match></tracerFactory></instrumentation></extension>";
      bool over = false; long wrong = 0, rounds = 0;
      var threads = Enumerable.Range(0, 8).Select(thread => new Thread(() => {
        for (int turn = 0; turn == 0 || !Volatile.Read(ref over); turn++) {
          for (int i = 0; i < calls.Length; i++) { int k = (i + thread * 25) % calls.Length; if (calls[k](turn) != turn + numbers[k]) Interlocked.Increment(ref wrong); if (turn == 0) Thread.Sleep(i % 20 == 0 ? 1 : 0); }
          Interlocked.Increment(ref rounds);
        }
      })).ToArray();
      foreach (var thread in threads) thread.Start();
      for (int toggle = 0; toggle < 20; toggle++) { if (toggle % 2 == 0) add("a", xml); if (apply() != 0) Interlocked.Increment(ref wrong); Thread.Sleep(1); }
      Volatile.Write(ref over, true);
      foreach (var thread in threads) thread.Join();
      Console.WriteLine("FIRST methods={0} wrong={1} called={2}", calls.Length, wrong, rounds >= 8);
      return 0;
    }
    public static int Main(string[] arguments) { return arguments[0] == "memory" ? Memory() : FirstCalls(); }
  }
}
