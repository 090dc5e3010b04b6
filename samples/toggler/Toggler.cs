// Calls 400 methods on all threads, over and over, and checks every result: while they are rewritten and put back again.
//
//   --threads N   threads that call (default 8)
//
// Says `ready`, calls until standard input ends, and prints how many rounds that were and how many results were wrong.
using System;
using System.Globalization;
using System.Linq;
using System.Threading;

namespace Clrscope.Samples
{
    public struct Pair { public long A, B; }

    public sealed class Odd : Exception { }

    public static class Toggler
    {
        public static long Last;
        static long wrong;
        static bool over;

        static void Check(bool right) { if (!right) Interlocked.Increment(ref wrong); }
        static void Twist(ref long y) { y *= 3; }
        static long Steps(long x) { long steps = 0; while (x > 1) { x /= 16; steps++; } return steps; }

        public static long M0(long x) { return x + 0; }
        public static long M1(long x) { if (x % 7 == 0) return 1; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M2(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 2; } catch (Odd) { return -2; } finally { Last = x; } }
        public static long M3(long x) { long y = x; Twist(ref y); return y ^ 3; }
        public static T M4<T>(T x) { return x; }
        public static long M5(long x) { return x <= 1 ? 5 : M5(x / 16) + 1; }
        public static string M6(string x) { return x.Length > 6 ? x : null; }
        public static Pair M7(Pair x) { return new Pair { A = x.B, B = x.A + 7 }; }
        public static long M8(long x) { return x + 8; }
        public static long M9(long x) { if (x % 7 == 0) return 9; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M10(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 10; } catch (Odd) { return -10; } finally { Last = x; } }
        public static long M11(long x) { long y = x; Twist(ref y); return y ^ 11; }
        public static T M12<T>(T x) { return x; }
        public static long M13(long x) { return x <= 1 ? 13 : M13(x / 16) + 1; }
        public static string M14(string x) { return x.Length > 14 ? x : null; }
        public static Pair M15(Pair x) { return new Pair { A = x.B, B = x.A + 15 }; }
        public static long M16(long x) { return x + 16; }
        public static long M17(long x) { if (x % 7 == 0) return 17; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M18(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 18; } catch (Odd) { return -18; } finally { Last = x; } }
        public static long M19(long x) { long y = x; Twist(ref y); return y ^ 19; }
        public static T M20<T>(T x) { return x; }
        public static long M21(long x) { return x <= 1 ? 21 : M21(x / 16) + 1; }
        public static string M22(string x) { return x.Length > 22 ? x : null; }
        public static Pair M23(Pair x) { return new Pair { A = x.B, B = x.A + 23 }; }
        public static long M24(long x) { return x + 24; }
        public static long M25(long x) { if (x % 7 == 0) return 25; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M26(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 26; } catch (Odd) { return -26; } finally { Last = x; } }
        public static long M27(long x) { long y = x; Twist(ref y); return y ^ 27; }
        public static T M28<T>(T x) { return x; }
        public static long M29(long x) { return x <= 1 ? 29 : M29(x / 16) + 1; }
        public static string M30(string x) { return x.Length > 30 ? x : null; }
        public static Pair M31(Pair x) { return new Pair { A = x.B, B = x.A + 31 }; }
        public static long M32(long x) { return x + 32; }
        public static long M33(long x) { if (x % 7 == 0) return 33; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M34(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 34; } catch (Odd) { return -34; } finally { Last = x; } }
        public static long M35(long x) { long y = x; Twist(ref y); return y ^ 35; }
        public static T M36<T>(T x) { return x; }
        public static long M37(long x) { return x <= 1 ? 37 : M37(x / 16) + 1; }
        public static string M38(string x) { return x.Length > 38 ? x : null; }
        public static Pair M39(Pair x) { return new Pair { A = x.B, B = x.A + 39 }; }
        public static long M40(long x) { return x + 40; }
        public static long M41(long x) { if (x % 7 == 0) return 41; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M42(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 42; } catch (Odd) { return -42; } finally { Last = x; } }
        public static long M43(long x) { long y = x; Twist(ref y); return y ^ 43; }
        public static T M44<T>(T x) { return x; }
        public static long M45(long x) { return x <= 1 ? 45 : M45(x / 16) + 1; }
        public static string M46(string x) { return x.Length > 46 ? x : null; }
        public static Pair M47(Pair x) { return new Pair { A = x.B, B = x.A + 47 }; }
        public static long M48(long x) { return x + 48; }
        public static long M49(long x) { if (x % 7 == 0) return 49; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M50(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 50; } catch (Odd) { return -50; } finally { Last = x; } }
        public static long M51(long x) { long y = x; Twist(ref y); return y ^ 51; }
        public static T M52<T>(T x) { return x; }
        public static long M53(long x) { return x <= 1 ? 53 : M53(x / 16) + 1; }
        public static string M54(string x) { return x.Length > 54 ? x : null; }
        public static Pair M55(Pair x) { return new Pair { A = x.B, B = x.A + 55 }; }
        public static long M56(long x) { return x + 56; }
        public static long M57(long x) { if (x % 7 == 0) return 57; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M58(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 58; } catch (Odd) { return -58; } finally { Last = x; } }
        public static long M59(long x) { long y = x; Twist(ref y); return y ^ 59; }
        public static T M60<T>(T x) { return x; }
        public static long M61(long x) { return x <= 1 ? 61 : M61(x / 16) + 1; }
        public static string M62(string x) { return x.Length > 62 ? x : null; }
        public static Pair M63(Pair x) { return new Pair { A = x.B, B = x.A + 63 }; }
        public static long M64(long x) { return x + 64; }
        public static long M65(long x) { if (x % 7 == 0) return 65; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M66(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 66; } catch (Odd) { return -66; } finally { Last = x; } }
        public static long M67(long x) { long y = x; Twist(ref y); return y ^ 67; }
        public static T M68<T>(T x) { return x; }
        public static long M69(long x) { return x <= 1 ? 69 : M69(x / 16) + 1; }
        public static string M70(string x) { return x.Length > 70 ? x : null; }
        public static Pair M71(Pair x) { return new Pair { A = x.B, B = x.A + 71 }; }
        public static long M72(long x) { return x + 72; }
        public static long M73(long x) { if (x % 7 == 0) return 73; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M74(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 74; } catch (Odd) { return -74; } finally { Last = x; } }
        public static long M75(long x) { long y = x; Twist(ref y); return y ^ 75; }
        public static T M76<T>(T x) { return x; }
        public static long M77(long x) { return x <= 1 ? 77 : M77(x / 16) + 1; }
        public static string M78(string x) { return x.Length > 78 ? x : null; }
        public static Pair M79(Pair x) { return new Pair { A = x.B, B = x.A + 79 }; }
        public static long M80(long x) { return x + 80; }
        public static long M81(long x) { if (x % 7 == 0) return 81; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M82(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 82; } catch (Odd) { return -82; } finally { Last = x; } }
        public static long M83(long x) { long y = x; Twist(ref y); return y ^ 83; }
        public static T M84<T>(T x) { return x; }
        public static long M85(long x) { return x <= 1 ? 85 : M85(x / 16) + 1; }
        public static string M86(string x) { return x.Length > 86 ? x : null; }
        public static Pair M87(Pair x) { return new Pair { A = x.B, B = x.A + 87 }; }
        public static long M88(long x) { return x + 88; }
        public static long M89(long x) { if (x % 7 == 0) return 89; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M90(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 90; } catch (Odd) { return -90; } finally { Last = x; } }
        public static long M91(long x) { long y = x; Twist(ref y); return y ^ 91; }
        public static T M92<T>(T x) { return x; }
        public static long M93(long x) { return x <= 1 ? 93 : M93(x / 16) + 1; }
        public static string M94(string x) { return x.Length > 94 ? x : null; }
        public static Pair M95(Pair x) { return new Pair { A = x.B, B = x.A + 95 }; }
        public static long M96(long x) { return x + 96; }
        public static long M97(long x) { if (x % 7 == 0) return 97; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M98(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 98; } catch (Odd) { return -98; } finally { Last = x; } }
        public static long M99(long x) { long y = x; Twist(ref y); return y ^ 99; }
        public static T M100<T>(T x) { return x; }
        public static long M101(long x) { return x <= 1 ? 101 : M101(x / 16) + 1; }
        public static string M102(string x) { return x.Length > 102 ? x : null; }
        public static Pair M103(Pair x) { return new Pair { A = x.B, B = x.A + 103 }; }
        public static long M104(long x) { return x + 104; }
        public static long M105(long x) { if (x % 7 == 0) return 105; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M106(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 106; } catch (Odd) { return -106; } finally { Last = x; } }
        public static long M107(long x) { long y = x; Twist(ref y); return y ^ 107; }
        public static T M108<T>(T x) { return x; }
        public static long M109(long x) { return x <= 1 ? 109 : M109(x / 16) + 1; }
        public static string M110(string x) { return x.Length > 110 ? x : null; }
        public static Pair M111(Pair x) { return new Pair { A = x.B, B = x.A + 111 }; }
        public static long M112(long x) { return x + 112; }
        public static long M113(long x) { if (x % 7 == 0) return 113; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M114(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 114; } catch (Odd) { return -114; } finally { Last = x; } }
        public static long M115(long x) { long y = x; Twist(ref y); return y ^ 115; }
        public static T M116<T>(T x) { return x; }
        public static long M117(long x) { return x <= 1 ? 117 : M117(x / 16) + 1; }
        public static string M118(string x) { return x.Length > 118 ? x : null; }
        public static Pair M119(Pair x) { return new Pair { A = x.B, B = x.A + 119 }; }
        public static long M120(long x) { return x + 120; }
        public static long M121(long x) { if (x % 7 == 0) return 121; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M122(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 122; } catch (Odd) { return -122; } finally { Last = x; } }
        public static long M123(long x) { long y = x; Twist(ref y); return y ^ 123; }
        public static T M124<T>(T x) { return x; }
        public static long M125(long x) { return x <= 1 ? 125 : M125(x / 16) + 1; }
        public static string M126(string x) { return x.Length > 126 ? x : null; }
        public static Pair M127(Pair x) { return new Pair { A = x.B, B = x.A + 127 }; }
        public static long M128(long x) { return x + 128; }
        public static long M129(long x) { if (x % 7 == 0) return 129; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M130(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 130; } catch (Odd) { return -130; } finally { Last = x; } }
        public static long M131(long x) { long y = x; Twist(ref y); return y ^ 131; }
        public static T M132<T>(T x) { return x; }
        public static long M133(long x) { return x <= 1 ? 133 : M133(x / 16) + 1; }
        public static string M134(string x) { return x.Length > 134 ? x : null; }
        public static Pair M135(Pair x) { return new Pair { A = x.B, B = x.A + 135 }; }
        public static long M136(long x) { return x + 136; }
        public static long M137(long x) { if (x % 7 == 0) return 137; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M138(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 138; } catch (Odd) { return -138; } finally { Last = x; } }
        public static long M139(long x) { long y = x; Twist(ref y); return y ^ 139; }
        public static T M140<T>(T x) { return x; }
        public static long M141(long x) { return x <= 1 ? 141 : M141(x / 16) + 1; }
        public static string M142(string x) { return x.Length > 142 ? x : null; }
        public static Pair M143(Pair x) { return new Pair { A = x.B, B = x.A + 143 }; }
        public static long M144(long x) { return x + 144; }
        public static long M145(long x) { if (x % 7 == 0) return 145; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M146(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 146; } catch (Odd) { return -146; } finally { Last = x; } }
        public static long M147(long x) { long y = x; Twist(ref y); return y ^ 147; }
        public static T M148<T>(T x) { return x; }
        public static long M149(long x) { return x <= 1 ? 149 : M149(x / 16) + 1; }
        public static string M150(string x) { return x.Length > 150 ? x : null; }
        public static Pair M151(Pair x) { return new Pair { A = x.B, B = x.A + 151 }; }
        public static long M152(long x) { return x + 152; }
        public static long M153(long x) { if (x % 7 == 0) return 153; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M154(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 154; } catch (Odd) { return -154; } finally { Last = x; } }
        public static long M155(long x) { long y = x; Twist(ref y); return y ^ 155; }
        public static T M156<T>(T x) { return x; }
        public static long M157(long x) { return x <= 1 ? 157 : M157(x / 16) + 1; }
        public static string M158(string x) { return x.Length > 158 ? x : null; }
        public static Pair M159(Pair x) { return new Pair { A = x.B, B = x.A + 159 }; }
        public static long M160(long x) { return x + 160; }
        public static long M161(long x) { if (x % 7 == 0) return 161; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M162(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 162; } catch (Odd) { return -162; } finally { Last = x; } }
        public static long M163(long x) { long y = x; Twist(ref y); return y ^ 163; }
        public static T M164<T>(T x) { return x; }
        public static long M165(long x) { return x <= 1 ? 165 : M165(x / 16) + 1; }
        public static string M166(string x) { return x.Length > 166 ? x : null; }
        public static Pair M167(Pair x) { return new Pair { A = x.B, B = x.A + 167 }; }
        public static long M168(long x) { return x + 168; }
        public static long M169(long x) { if (x % 7 == 0) return 169; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M170(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 170; } catch (Odd) { return -170; } finally { Last = x; } }
        public static long M171(long x) { long y = x; Twist(ref y); return y ^ 171; }
        public static T M172<T>(T x) { return x; }
        public static long M173(long x) { return x <= 1 ? 173 : M173(x / 16) + 1; }
        public static string M174(string x) { return x.Length > 174 ? x : null; }
        public static Pair M175(Pair x) { return new Pair { A = x.B, B = x.A + 175 }; }
        public static long M176(long x) { return x + 176; }
        public static long M177(long x) { if (x % 7 == 0) return 177; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M178(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 178; } catch (Odd) { return -178; } finally { Last = x; } }
        public static long M179(long x) { long y = x; Twist(ref y); return y ^ 179; }
        public static T M180<T>(T x) { return x; }
        public static long M181(long x) { return x <= 1 ? 181 : M181(x / 16) + 1; }
        public static string M182(string x) { return x.Length > 182 ? x : null; }
        public static Pair M183(Pair x) { return new Pair { A = x.B, B = x.A + 183 }; }
        public static long M184(long x) { return x + 184; }
        public static long M185(long x) { if (x % 7 == 0) return 185; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M186(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 186; } catch (Odd) { return -186; } finally { Last = x; } }
        public static long M187(long x) { long y = x; Twist(ref y); return y ^ 187; }
        public static T M188<T>(T x) { return x; }
        public static long M189(long x) { return x <= 1 ? 189 : M189(x / 16) + 1; }
        public static string M190(string x) { return x.Length > 190 ? x : null; }
        public static Pair M191(Pair x) { return new Pair { A = x.B, B = x.A + 191 }; }
        public static long M192(long x) { return x + 192; }
        public static long M193(long x) { if (x % 7 == 0) return 193; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M194(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 194; } catch (Odd) { return -194; } finally { Last = x; } }
        public static long M195(long x) { long y = x; Twist(ref y); return y ^ 195; }
        public static T M196<T>(T x) { return x; }
        public static long M197(long x) { return x <= 1 ? 197 : M197(x / 16) + 1; }
        public static string M198(string x) { return x.Length > 198 ? x : null; }
        public static Pair M199(Pair x) { return new Pair { A = x.B, B = x.A + 199 }; }
        public static long M200(long x) { return x + 200; }
        public static long M201(long x) { if (x % 7 == 0) return 201; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M202(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 202; } catch (Odd) { return -202; } finally { Last = x; } }
        public static long M203(long x) { long y = x; Twist(ref y); return y ^ 203; }
        public static T M204<T>(T x) { return x; }
        public static long M205(long x) { return x <= 1 ? 205 : M205(x / 16) + 1; }
        public static string M206(string x) { return x.Length > 206 ? x : null; }
        public static Pair M207(Pair x) { return new Pair { A = x.B, B = x.A + 207 }; }
        public static long M208(long x) { return x + 208; }
        public static long M209(long x) { if (x % 7 == 0) return 209; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M210(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 210; } catch (Odd) { return -210; } finally { Last = x; } }
        public static long M211(long x) { long y = x; Twist(ref y); return y ^ 211; }
        public static T M212<T>(T x) { return x; }
        public static long M213(long x) { return x <= 1 ? 213 : M213(x / 16) + 1; }
        public static string M214(string x) { return x.Length > 214 ? x : null; }
        public static Pair M215(Pair x) { return new Pair { A = x.B, B = x.A + 215 }; }
        public static long M216(long x) { return x + 216; }
        public static long M217(long x) { if (x % 7 == 0) return 217; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M218(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 218; } catch (Odd) { return -218; } finally { Last = x; } }
        public static long M219(long x) { long y = x; Twist(ref y); return y ^ 219; }
        public static T M220<T>(T x) { return x; }
        public static long M221(long x) { return x <= 1 ? 221 : M221(x / 16) + 1; }
        public static string M222(string x) { return x.Length > 222 ? x : null; }
        public static Pair M223(Pair x) { return new Pair { A = x.B, B = x.A + 223 }; }
        public static long M224(long x) { return x + 224; }
        public static long M225(long x) { if (x % 7 == 0) return 225; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M226(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 226; } catch (Odd) { return -226; } finally { Last = x; } }
        public static long M227(long x) { long y = x; Twist(ref y); return y ^ 227; }
        public static T M228<T>(T x) { return x; }
        public static long M229(long x) { return x <= 1 ? 229 : M229(x / 16) + 1; }
        public static string M230(string x) { return x.Length > 230 ? x : null; }
        public static Pair M231(Pair x) { return new Pair { A = x.B, B = x.A + 231 }; }
        public static long M232(long x) { return x + 232; }
        public static long M233(long x) { if (x % 7 == 0) return 233; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M234(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 234; } catch (Odd) { return -234; } finally { Last = x; } }
        public static long M235(long x) { long y = x; Twist(ref y); return y ^ 235; }
        public static T M236<T>(T x) { return x; }
        public static long M237(long x) { return x <= 1 ? 237 : M237(x / 16) + 1; }
        public static string M238(string x) { return x.Length > 238 ? x : null; }
        public static Pair M239(Pair x) { return new Pair { A = x.B, B = x.A + 239 }; }
        public static long M240(long x) { return x + 240; }
        public static long M241(long x) { if (x % 7 == 0) return 241; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M242(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 242; } catch (Odd) { return -242; } finally { Last = x; } }
        public static long M243(long x) { long y = x; Twist(ref y); return y ^ 243; }
        public static T M244<T>(T x) { return x; }
        public static long M245(long x) { return x <= 1 ? 245 : M245(x / 16) + 1; }
        public static string M246(string x) { return x.Length > 246 ? x : null; }
        public static Pair M247(Pair x) { return new Pair { A = x.B, B = x.A + 247 }; }
        public static long M248(long x) { return x + 248; }
        public static long M249(long x) { if (x % 7 == 0) return 249; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M250(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 250; } catch (Odd) { return -250; } finally { Last = x; } }
        public static long M251(long x) { long y = x; Twist(ref y); return y ^ 251; }
        public static T M252<T>(T x) { return x; }
        public static long M253(long x) { return x <= 1 ? 253 : M253(x / 16) + 1; }
        public static string M254(string x) { return x.Length > 254 ? x : null; }
        public static Pair M255(Pair x) { return new Pair { A = x.B, B = x.A + 255 }; }
        public static long M256(long x) { return x + 256; }
        public static long M257(long x) { if (x % 7 == 0) return 257; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M258(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 258; } catch (Odd) { return -258; } finally { Last = x; } }
        public static long M259(long x) { long y = x; Twist(ref y); return y ^ 259; }
        public static T M260<T>(T x) { return x; }
        public static long M261(long x) { return x <= 1 ? 261 : M261(x / 16) + 1; }
        public static string M262(string x) { return x.Length > 262 ? x : null; }
        public static Pair M263(Pair x) { return new Pair { A = x.B, B = x.A + 263 }; }
        public static long M264(long x) { return x + 264; }
        public static long M265(long x) { if (x % 7 == 0) return 265; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M266(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 266; } catch (Odd) { return -266; } finally { Last = x; } }
        public static long M267(long x) { long y = x; Twist(ref y); return y ^ 267; }
        public static T M268<T>(T x) { return x; }
        public static long M269(long x) { return x <= 1 ? 269 : M269(x / 16) + 1; }
        public static string M270(string x) { return x.Length > 270 ? x : null; }
        public static Pair M271(Pair x) { return new Pair { A = x.B, B = x.A + 271 }; }
        public static long M272(long x) { return x + 272; }
        public static long M273(long x) { if (x % 7 == 0) return 273; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M274(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 274; } catch (Odd) { return -274; } finally { Last = x; } }
        public static long M275(long x) { long y = x; Twist(ref y); return y ^ 275; }
        public static T M276<T>(T x) { return x; }
        public static long M277(long x) { return x <= 1 ? 277 : M277(x / 16) + 1; }
        public static string M278(string x) { return x.Length > 278 ? x : null; }
        public static Pair M279(Pair x) { return new Pair { A = x.B, B = x.A + 279 }; }
        public static long M280(long x) { return x + 280; }
        public static long M281(long x) { if (x % 7 == 0) return 281; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M282(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 282; } catch (Odd) { return -282; } finally { Last = x; } }
        public static long M283(long x) { long y = x; Twist(ref y); return y ^ 283; }
        public static T M284<T>(T x) { return x; }
        public static long M285(long x) { return x <= 1 ? 285 : M285(x / 16) + 1; }
        public static string M286(string x) { return x.Length > 286 ? x : null; }
        public static Pair M287(Pair x) { return new Pair { A = x.B, B = x.A + 287 }; }
        public static long M288(long x) { return x + 288; }
        public static long M289(long x) { if (x % 7 == 0) return 289; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M290(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 290; } catch (Odd) { return -290; } finally { Last = x; } }
        public static long M291(long x) { long y = x; Twist(ref y); return y ^ 291; }
        public static T M292<T>(T x) { return x; }
        public static long M293(long x) { return x <= 1 ? 293 : M293(x / 16) + 1; }
        public static string M294(string x) { return x.Length > 294 ? x : null; }
        public static Pair M295(Pair x) { return new Pair { A = x.B, B = x.A + 295 }; }
        public static long M296(long x) { return x + 296; }
        public static long M297(long x) { if (x % 7 == 0) return 297; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M298(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 298; } catch (Odd) { return -298; } finally { Last = x; } }
        public static long M299(long x) { long y = x; Twist(ref y); return y ^ 299; }
        public static T M300<T>(T x) { return x; }
        public static long M301(long x) { return x <= 1 ? 301 : M301(x / 16) + 1; }
        public static string M302(string x) { return x.Length > 302 ? x : null; }
        public static Pair M303(Pair x) { return new Pair { A = x.B, B = x.A + 303 }; }
        public static long M304(long x) { return x + 304; }
        public static long M305(long x) { if (x % 7 == 0) return 305; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M306(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 306; } catch (Odd) { return -306; } finally { Last = x; } }
        public static long M307(long x) { long y = x; Twist(ref y); return y ^ 307; }
        public static T M308<T>(T x) { return x; }
        public static long M309(long x) { return x <= 1 ? 309 : M309(x / 16) + 1; }
        public static string M310(string x) { return x.Length > 310 ? x : null; }
        public static Pair M311(Pair x) { return new Pair { A = x.B, B = x.A + 311 }; }
        public static long M312(long x) { return x + 312; }
        public static long M313(long x) { if (x % 7 == 0) return 313; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M314(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 314; } catch (Odd) { return -314; } finally { Last = x; } }
        public static long M315(long x) { long y = x; Twist(ref y); return y ^ 315; }
        public static T M316<T>(T x) { return x; }
        public static long M317(long x) { return x <= 1 ? 317 : M317(x / 16) + 1; }
        public static string M318(string x) { return x.Length > 318 ? x : null; }
        public static Pair M319(Pair x) { return new Pair { A = x.B, B = x.A + 319 }; }
        public static long M320(long x) { return x + 320; }
        public static long M321(long x) { if (x % 7 == 0) return 321; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M322(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 322; } catch (Odd) { return -322; } finally { Last = x; } }
        public static long M323(long x) { long y = x; Twist(ref y); return y ^ 323; }
        public static T M324<T>(T x) { return x; }
        public static long M325(long x) { return x <= 1 ? 325 : M325(x / 16) + 1; }
        public static string M326(string x) { return x.Length > 326 ? x : null; }
        public static Pair M327(Pair x) { return new Pair { A = x.B, B = x.A + 327 }; }
        public static long M328(long x) { return x + 328; }
        public static long M329(long x) { if (x % 7 == 0) return 329; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M330(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 330; } catch (Odd) { return -330; } finally { Last = x; } }
        public static long M331(long x) { long y = x; Twist(ref y); return y ^ 331; }
        public static T M332<T>(T x) { return x; }
        public static long M333(long x) { return x <= 1 ? 333 : M333(x / 16) + 1; }
        public static string M334(string x) { return x.Length > 334 ? x : null; }
        public static Pair M335(Pair x) { return new Pair { A = x.B, B = x.A + 335 }; }
        public static long M336(long x) { return x + 336; }
        public static long M337(long x) { if (x % 7 == 0) return 337; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M338(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 338; } catch (Odd) { return -338; } finally { Last = x; } }
        public static long M339(long x) { long y = x; Twist(ref y); return y ^ 339; }
        public static T M340<T>(T x) { return x; }
        public static long M341(long x) { return x <= 1 ? 341 : M341(x / 16) + 1; }
        public static string M342(string x) { return x.Length > 342 ? x : null; }
        public static Pair M343(Pair x) { return new Pair { A = x.B, B = x.A + 343 }; }
        public static long M344(long x) { return x + 344; }
        public static long M345(long x) { if (x % 7 == 0) return 345; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M346(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 346; } catch (Odd) { return -346; } finally { Last = x; } }
        public static long M347(long x) { long y = x; Twist(ref y); return y ^ 347; }
        public static T M348<T>(T x) { return x; }
        public static long M349(long x) { return x <= 1 ? 349 : M349(x / 16) + 1; }
        public static string M350(string x) { return x.Length > 350 ? x : null; }
        public static Pair M351(Pair x) { return new Pair { A = x.B, B = x.A + 351 }; }
        public static long M352(long x) { return x + 352; }
        public static long M353(long x) { if (x % 7 == 0) return 353; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M354(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 354; } catch (Odd) { return -354; } finally { Last = x; } }
        public static long M355(long x) { long y = x; Twist(ref y); return y ^ 355; }
        public static T M356<T>(T x) { return x; }
        public static long M357(long x) { return x <= 1 ? 357 : M357(x / 16) + 1; }
        public static string M358(string x) { return x.Length > 358 ? x : null; }
        public static Pair M359(Pair x) { return new Pair { A = x.B, B = x.A + 359 }; }
        public static long M360(long x) { return x + 360; }
        public static long M361(long x) { if (x % 7 == 0) return 361; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M362(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 362; } catch (Odd) { return -362; } finally { Last = x; } }
        public static long M363(long x) { long y = x; Twist(ref y); return y ^ 363; }
        public static T M364<T>(T x) { return x; }
        public static long M365(long x) { return x <= 1 ? 365 : M365(x / 16) + 1; }
        public static string M366(string x) { return x.Length > 366 ? x : null; }
        public static Pair M367(Pair x) { return new Pair { A = x.B, B = x.A + 367 }; }
        public static long M368(long x) { return x + 368; }
        public static long M369(long x) { if (x % 7 == 0) return 369; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M370(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 370; } catch (Odd) { return -370; } finally { Last = x; } }
        public static long M371(long x) { long y = x; Twist(ref y); return y ^ 371; }
        public static T M372<T>(T x) { return x; }
        public static long M373(long x) { return x <= 1 ? 373 : M373(x / 16) + 1; }
        public static string M374(string x) { return x.Length > 374 ? x : null; }
        public static Pair M375(Pair x) { return new Pair { A = x.B, B = x.A + 375 }; }
        public static long M376(long x) { return x + 376; }
        public static long M377(long x) { if (x % 7 == 0) return 377; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M378(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 378; } catch (Odd) { return -378; } finally { Last = x; } }
        public static long M379(long x) { long y = x; Twist(ref y); return y ^ 379; }
        public static T M380<T>(T x) { return x; }
        public static long M381(long x) { return x <= 1 ? 381 : M381(x / 16) + 1; }
        public static string M382(string x) { return x.Length > 382 ? x : null; }
        public static Pair M383(Pair x) { return new Pair { A = x.B, B = x.A + 383 }; }
        public static long M384(long x) { return x + 384; }
        public static long M385(long x) { if (x % 7 == 0) return 385; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M386(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 386; } catch (Odd) { return -386; } finally { Last = x; } }
        public static long M387(long x) { long y = x; Twist(ref y); return y ^ 387; }
        public static T M388<T>(T x) { return x; }
        public static long M389(long x) { return x <= 1 ? 389 : M389(x / 16) + 1; }
        public static string M390(string x) { return x.Length > 390 ? x : null; }
        public static Pair M391(Pair x) { return new Pair { A = x.B, B = x.A + 391 }; }
        public static long M392(long x) { return x + 392; }
        public static long M393(long x) { if (x % 7 == 0) return 393; for (int k = 0; k < 3; k++) x += k; return x; }
        public static long M394(long x) { try { if (x % 5 == 0) throw new Odd(); return x + 394; } catch (Odd) { return -394; } finally { Last = x; } }
        public static long M395(long x) { long y = x; Twist(ref y); return y ^ 395; }
        public static T M396<T>(T x) { return x; }
        public static long M397(long x) { return x <= 1 ? 397 : M397(x / 16) + 1; }
        public static string M398(string x) { return x.Length > 398 ? x : null; }
        public static Pair M399(Pair x) { return new Pair { A = x.B, B = x.A + 399 }; }

        static void Round(long x, string name)
        {
            Check(M0(x) == x + 0);
            Check(M1(x) == (x % 7 == 0 ? 1 : x + 3));
            if ((x & 15) == 0) Check(M2(x) == (x % 5 == 0 ? -2 : x + 2));
            Check(M3(x) == ((x * 3) ^ 3));
            Check(M4(x) == x && M4(name) == name);
            Check(M5(x) == Steps(x) + 5);
            Check(M6(name) == (name.Length > 6 ? name : null));
            Check(M7(new Pair { A = x, B = 2 }).B == x + 7);
            Check(M8(x) == x + 8);
            Check(M9(x) == (x % 7 == 0 ? 9 : x + 3));
            if ((x & 15) == 1) Check(M10(x) == (x % 5 == 0 ? -10 : x + 10));
            Check(M11(x) == ((x * 3) ^ 11));
            Check(M12(x) == x && M12(name) == name);
            Check(M13(x) == Steps(x) + 13);
            Check(M14(name) == (name.Length > 14 ? name : null));
            Check(M15(new Pair { A = x, B = 2 }).B == x + 15);
            Check(M16(x) == x + 16);
            Check(M17(x) == (x % 7 == 0 ? 17 : x + 3));
            if ((x & 15) == 2) Check(M18(x) == (x % 5 == 0 ? -18 : x + 18));
            Check(M19(x) == ((x * 3) ^ 19));
            Check(M20(x) == x && M20(name) == name);
            Check(M21(x) == Steps(x) + 21);
            Check(M22(name) == (name.Length > 22 ? name : null));
            Check(M23(new Pair { A = x, B = 2 }).B == x + 23);
            Check(M24(x) == x + 24);
            Check(M25(x) == (x % 7 == 0 ? 25 : x + 3));
            if ((x & 15) == 3) Check(M26(x) == (x % 5 == 0 ? -26 : x + 26));
            Check(M27(x) == ((x * 3) ^ 27));
            Check(M28(x) == x && M28(name) == name);
            Check(M29(x) == Steps(x) + 29);
            Check(M30(name) == (name.Length > 30 ? name : null));
            Check(M31(new Pair { A = x, B = 2 }).B == x + 31);
            Check(M32(x) == x + 32);
            Check(M33(x) == (x % 7 == 0 ? 33 : x + 3));
            if ((x & 15) == 4) Check(M34(x) == (x % 5 == 0 ? -34 : x + 34));
            Check(M35(x) == ((x * 3) ^ 35));
            Check(M36(x) == x && M36(name) == name);
            Check(M37(x) == Steps(x) + 37);
            Check(M38(name) == (name.Length > 38 ? name : null));
            Check(M39(new Pair { A = x, B = 2 }).B == x + 39);
            Check(M40(x) == x + 40);
            Check(M41(x) == (x % 7 == 0 ? 41 : x + 3));
            if ((x & 15) == 5) Check(M42(x) == (x % 5 == 0 ? -42 : x + 42));
            Check(M43(x) == ((x * 3) ^ 43));
            Check(M44(x) == x && M44(name) == name);
            Check(M45(x) == Steps(x) + 45);
            Check(M46(name) == (name.Length > 46 ? name : null));
            Check(M47(new Pair { A = x, B = 2 }).B == x + 47);
            Check(M48(x) == x + 48);
            Check(M49(x) == (x % 7 == 0 ? 49 : x + 3));
            if ((x & 15) == 6) Check(M50(x) == (x % 5 == 0 ? -50 : x + 50));
            Check(M51(x) == ((x * 3) ^ 51));
            Check(M52(x) == x && M52(name) == name);
            Check(M53(x) == Steps(x) + 53);
            Check(M54(name) == (name.Length > 54 ? name : null));
            Check(M55(new Pair { A = x, B = 2 }).B == x + 55);
            Check(M56(x) == x + 56);
            Check(M57(x) == (x % 7 == 0 ? 57 : x + 3));
            if ((x & 15) == 7) Check(M58(x) == (x % 5 == 0 ? -58 : x + 58));
            Check(M59(x) == ((x * 3) ^ 59));
            Check(M60(x) == x && M60(name) == name);
            Check(M61(x) == Steps(x) + 61);
            Check(M62(name) == (name.Length > 62 ? name : null));
            Check(M63(new Pair { A = x, B = 2 }).B == x + 63);
            Check(M64(x) == x + 64);
            Check(M65(x) == (x % 7 == 0 ? 65 : x + 3));
            if ((x & 15) == 8) Check(M66(x) == (x % 5 == 0 ? -66 : x + 66));
            Check(M67(x) == ((x * 3) ^ 67));
            Check(M68(x) == x && M68(name) == name);
            Check(M69(x) == Steps(x) + 69);
            Check(M70(name) == (name.Length > 70 ? name : null));
            Check(M71(new Pair { A = x, B = 2 }).B == x + 71);
            Check(M72(x) == x + 72);
            Check(M73(x) == (x % 7 == 0 ? 73 : x + 3));
            if ((x & 15) == 9) Check(M74(x) == (x % 5 == 0 ? -74 : x + 74));
            Check(M75(x) == ((x * 3) ^ 75));
            Check(M76(x) == x && M76(name) == name);
            Check(M77(x) == Steps(x) + 77);
            Check(M78(name) == (name.Length > 78 ? name : null));
            Check(M79(new Pair { A = x, B = 2 }).B == x + 79);
            Check(M80(x) == x + 80);
            Check(M81(x) == (x % 7 == 0 ? 81 : x + 3));
            if ((x & 15) == 10) Check(M82(x) == (x % 5 == 0 ? -82 : x + 82));
            Check(M83(x) == ((x * 3) ^ 83));
            Check(M84(x) == x && M84(name) == name);
            Check(M85(x) == Steps(x) + 85);
            Check(M86(name) == (name.Length > 86 ? name : null));
            Check(M87(new Pair { A = x, B = 2 }).B == x + 87);
            Check(M88(x) == x + 88);
            Check(M89(x) == (x % 7 == 0 ? 89 : x + 3));
            if ((x & 15) == 11) Check(M90(x) == (x % 5 == 0 ? -90 : x + 90));
            Check(M91(x) == ((x * 3) ^ 91));
            Check(M92(x) == x && M92(name) == name);
            Check(M93(x) == Steps(x) + 93);
            Check(M94(name) == (name.Length > 94 ? name : null));
            Check(M95(new Pair { A = x, B = 2 }).B == x + 95);
            Check(M96(x) == x + 96);
            Check(M97(x) == (x % 7 == 0 ? 97 : x + 3));
            if ((x & 15) == 12) Check(M98(x) == (x % 5 == 0 ? -98 : x + 98));
            Check(M99(x) == ((x * 3) ^ 99));
            Check(M100(x) == x && M100(name) == name);
            Check(M101(x) == Steps(x) + 101);
            Check(M102(name) == (name.Length > 102 ? name : null));
            Check(M103(new Pair { A = x, B = 2 }).B == x + 103);
            Check(M104(x) == x + 104);
            Check(M105(x) == (x % 7 == 0 ? 105 : x + 3));
            if ((x & 15) == 13) Check(M106(x) == (x % 5 == 0 ? -106 : x + 106));
            Check(M107(x) == ((x * 3) ^ 107));
            Check(M108(x) == x && M108(name) == name);
            Check(M109(x) == Steps(x) + 109);
            Check(M110(name) == (name.Length > 110 ? name : null));
            Check(M111(new Pair { A = x, B = 2 }).B == x + 111);
            Check(M112(x) == x + 112);
            Check(M113(x) == (x % 7 == 0 ? 113 : x + 3));
            if ((x & 15) == 14) Check(M114(x) == (x % 5 == 0 ? -114 : x + 114));
            Check(M115(x) == ((x * 3) ^ 115));
            Check(M116(x) == x && M116(name) == name);
            Check(M117(x) == Steps(x) + 117);
            Check(M118(name) == (name.Length > 118 ? name : null));
            Check(M119(new Pair { A = x, B = 2 }).B == x + 119);
            Check(M120(x) == x + 120);
            Check(M121(x) == (x % 7 == 0 ? 121 : x + 3));
            if ((x & 15) == 15) Check(M122(x) == (x % 5 == 0 ? -122 : x + 122));
            Check(M123(x) == ((x * 3) ^ 123));
            Check(M124(x) == x && M124(name) == name);
            Check(M125(x) == Steps(x) + 125);
            Check(M126(name) == (name.Length > 126 ? name : null));
            Check(M127(new Pair { A = x, B = 2 }).B == x + 127);
            Check(M128(x) == x + 128);
            Check(M129(x) == (x % 7 == 0 ? 129 : x + 3));
            if ((x & 15) == 0) Check(M130(x) == (x % 5 == 0 ? -130 : x + 130));
            Check(M131(x) == ((x * 3) ^ 131));
            Check(M132(x) == x && M132(name) == name);
            Check(M133(x) == Steps(x) + 133);
            Check(M134(name) == (name.Length > 134 ? name : null));
            Check(M135(new Pair { A = x, B = 2 }).B == x + 135);
            Check(M136(x) == x + 136);
            Check(M137(x) == (x % 7 == 0 ? 137 : x + 3));
            if ((x & 15) == 1) Check(M138(x) == (x % 5 == 0 ? -138 : x + 138));
            Check(M139(x) == ((x * 3) ^ 139));
            Check(M140(x) == x && M140(name) == name);
            Check(M141(x) == Steps(x) + 141);
            Check(M142(name) == (name.Length > 142 ? name : null));
            Check(M143(new Pair { A = x, B = 2 }).B == x + 143);
            Check(M144(x) == x + 144);
            Check(M145(x) == (x % 7 == 0 ? 145 : x + 3));
            if ((x & 15) == 2) Check(M146(x) == (x % 5 == 0 ? -146 : x + 146));
            Check(M147(x) == ((x * 3) ^ 147));
            Check(M148(x) == x && M148(name) == name);
            Check(M149(x) == Steps(x) + 149);
            Check(M150(name) == (name.Length > 150 ? name : null));
            Check(M151(new Pair { A = x, B = 2 }).B == x + 151);
            Check(M152(x) == x + 152);
            Check(M153(x) == (x % 7 == 0 ? 153 : x + 3));
            if ((x & 15) == 3) Check(M154(x) == (x % 5 == 0 ? -154 : x + 154));
            Check(M155(x) == ((x * 3) ^ 155));
            Check(M156(x) == x && M156(name) == name);
            Check(M157(x) == Steps(x) + 157);
            Check(M158(name) == (name.Length > 158 ? name : null));
            Check(M159(new Pair { A = x, B = 2 }).B == x + 159);
            Check(M160(x) == x + 160);
            Check(M161(x) == (x % 7 == 0 ? 161 : x + 3));
            if ((x & 15) == 4) Check(M162(x) == (x % 5 == 0 ? -162 : x + 162));
            Check(M163(x) == ((x * 3) ^ 163));
            Check(M164(x) == x && M164(name) == name);
            Check(M165(x) == Steps(x) + 165);
            Check(M166(name) == (name.Length > 166 ? name : null));
            Check(M167(new Pair { A = x, B = 2 }).B == x + 167);
            Check(M168(x) == x + 168);
            Check(M169(x) == (x % 7 == 0 ? 169 : x + 3));
            if ((x & 15) == 5) Check(M170(x) == (x % 5 == 0 ? -170 : x + 170));
            Check(M171(x) == ((x * 3) ^ 171));
            Check(M172(x) == x && M172(name) == name);
            Check(M173(x) == Steps(x) + 173);
            Check(M174(name) == (name.Length > 174 ? name : null));
            Check(M175(new Pair { A = x, B = 2 }).B == x + 175);
            Check(M176(x) == x + 176);
            Check(M177(x) == (x % 7 == 0 ? 177 : x + 3));
            if ((x & 15) == 6) Check(M178(x) == (x % 5 == 0 ? -178 : x + 178));
            Check(M179(x) == ((x * 3) ^ 179));
            Check(M180(x) == x && M180(name) == name);
            Check(M181(x) == Steps(x) + 181);
            Check(M182(name) == (name.Length > 182 ? name : null));
            Check(M183(new Pair { A = x, B = 2 }).B == x + 183);
            Check(M184(x) == x + 184);
            Check(M185(x) == (x % 7 == 0 ? 185 : x + 3));
            if ((x & 15) == 7) Check(M186(x) == (x % 5 == 0 ? -186 : x + 186));
            Check(M187(x) == ((x * 3) ^ 187));
            Check(M188(x) == x && M188(name) == name);
            Check(M189(x) == Steps(x) + 189);
            Check(M190(name) == (name.Length > 190 ? name : null));
            Check(M191(new Pair { A = x, B = 2 }).B == x + 191);
            Check(M192(x) == x + 192);
            Check(M193(x) == (x % 7 == 0 ? 193 : x + 3));
            if ((x & 15) == 8) Check(M194(x) == (x % 5 == 0 ? -194 : x + 194));
            Check(M195(x) == ((x * 3) ^ 195));
            Check(M196(x) == x && M196(name) == name);
            Check(M197(x) == Steps(x) + 197);
            Check(M198(name) == (name.Length > 198 ? name : null));
            Check(M199(new Pair { A = x, B = 2 }).B == x + 199);
            Check(M200(x) == x + 200);
            Check(M201(x) == (x % 7 == 0 ? 201 : x + 3));
            if ((x & 15) == 9) Check(M202(x) == (x % 5 == 0 ? -202 : x + 202));
            Check(M203(x) == ((x * 3) ^ 203));
            Check(M204(x) == x && M204(name) == name);
            Check(M205(x) == Steps(x) + 205);
            Check(M206(name) == (name.Length > 206 ? name : null));
            Check(M207(new Pair { A = x, B = 2 }).B == x + 207);
            Check(M208(x) == x + 208);
            Check(M209(x) == (x % 7 == 0 ? 209 : x + 3));
            if ((x & 15) == 10) Check(M210(x) == (x % 5 == 0 ? -210 : x + 210));
            Check(M211(x) == ((x * 3) ^ 211));
            Check(M212(x) == x && M212(name) == name);
            Check(M213(x) == Steps(x) + 213);
            Check(M214(name) == (name.Length > 214 ? name : null));
            Check(M215(new Pair { A = x, B = 2 }).B == x + 215);
            Check(M216(x) == x + 216);
            Check(M217(x) == (x % 7 == 0 ? 217 : x + 3));
            if ((x & 15) == 11) Check(M218(x) == (x % 5 == 0 ? -218 : x + 218));
            Check(M219(x) == ((x * 3) ^ 219));
            Check(M220(x) == x && M220(name) == name);
            Check(M221(x) == Steps(x) + 221);
            Check(M222(name) == (name.Length > 222 ? name : null));
            Check(M223(new Pair { A = x, B = 2 }).B == x + 223);
            Check(M224(x) == x + 224);
            Check(M225(x) == (x % 7 == 0 ? 225 : x + 3));
            if ((x & 15) == 12) Check(M226(x) == (x % 5 == 0 ? -226 : x + 226));
            Check(M227(x) == ((x * 3) ^ 227));
            Check(M228(x) == x && M228(name) == name);
            Check(M229(x) == Steps(x) + 229);
            Check(M230(name) == (name.Length > 230 ? name : null));
            Check(M231(new Pair { A = x, B = 2 }).B == x + 231);
            Check(M232(x) == x + 232);
            Check(M233(x) == (x % 7 == 0 ? 233 : x + 3));
            if ((x & 15) == 13) Check(M234(x) == (x % 5 == 0 ? -234 : x + 234));
            Check(M235(x) == ((x * 3) ^ 235));
            Check(M236(x) == x && M236(name) == name);
            Check(M237(x) == Steps(x) + 237);
            Check(M238(name) == (name.Length > 238 ? name : null));
            Check(M239(new Pair { A = x, B = 2 }).B == x + 239);
            Check(M240(x) == x + 240);
            Check(M241(x) == (x % 7 == 0 ? 241 : x + 3));
            if ((x & 15) == 14) Check(M242(x) == (x % 5 == 0 ? -242 : x + 242));
            Check(M243(x) == ((x * 3) ^ 243));
            Check(M244(x) == x && M244(name) == name);
            Check(M245(x) == Steps(x) + 245);
            Check(M246(name) == (name.Length > 246 ? name : null));
            Check(M247(new Pair { A = x, B = 2 }).B == x + 247);
            Check(M248(x) == x + 248);
            Check(M249(x) == (x % 7 == 0 ? 249 : x + 3));
            if ((x & 15) == 15) Check(M250(x) == (x % 5 == 0 ? -250 : x + 250));
            Check(M251(x) == ((x * 3) ^ 251));
            Check(M252(x) == x && M252(name) == name);
            Check(M253(x) == Steps(x) + 253);
            Check(M254(name) == (name.Length > 254 ? name : null));
            Check(M255(new Pair { A = x, B = 2 }).B == x + 255);
            Check(M256(x) == x + 256);
            Check(M257(x) == (x % 7 == 0 ? 257 : x + 3));
            if ((x & 15) == 0) Check(M258(x) == (x % 5 == 0 ? -258 : x + 258));
            Check(M259(x) == ((x * 3) ^ 259));
            Check(M260(x) == x && M260(name) == name);
            Check(M261(x) == Steps(x) + 261);
            Check(M262(name) == (name.Length > 262 ? name : null));
            Check(M263(new Pair { A = x, B = 2 }).B == x + 263);
            Check(M264(x) == x + 264);
            Check(M265(x) == (x % 7 == 0 ? 265 : x + 3));
            if ((x & 15) == 1) Check(M266(x) == (x % 5 == 0 ? -266 : x + 266));
            Check(M267(x) == ((x * 3) ^ 267));
            Check(M268(x) == x && M268(name) == name);
            Check(M269(x) == Steps(x) + 269);
            Check(M270(name) == (name.Length > 270 ? name : null));
            Check(M271(new Pair { A = x, B = 2 }).B == x + 271);
            Check(M272(x) == x + 272);
            Check(M273(x) == (x % 7 == 0 ? 273 : x + 3));
            if ((x & 15) == 2) Check(M274(x) == (x % 5 == 0 ? -274 : x + 274));
            Check(M275(x) == ((x * 3) ^ 275));
            Check(M276(x) == x && M276(name) == name);
            Check(M277(x) == Steps(x) + 277);
            Check(M278(name) == (name.Length > 278 ? name : null));
            Check(M279(new Pair { A = x, B = 2 }).B == x + 279);
            Check(M280(x) == x + 280);
            Check(M281(x) == (x % 7 == 0 ? 281 : x + 3));
            if ((x & 15) == 3) Check(M282(x) == (x % 5 == 0 ? -282 : x + 282));
            Check(M283(x) == ((x * 3) ^ 283));
            Check(M284(x) == x && M284(name) == name);
            Check(M285(x) == Steps(x) + 285);
            Check(M286(name) == (name.Length > 286 ? name : null));
            Check(M287(new Pair { A = x, B = 2 }).B == x + 287);
            Check(M288(x) == x + 288);
            Check(M289(x) == (x % 7 == 0 ? 289 : x + 3));
            if ((x & 15) == 4) Check(M290(x) == (x % 5 == 0 ? -290 : x + 290));
            Check(M291(x) == ((x * 3) ^ 291));
            Check(M292(x) == x && M292(name) == name);
            Check(M293(x) == Steps(x) + 293);
            Check(M294(name) == (name.Length > 294 ? name : null));
            Check(M295(new Pair { A = x, B = 2 }).B == x + 295);
            Check(M296(x) == x + 296);
            Check(M297(x) == (x % 7 == 0 ? 297 : x + 3));
            if ((x & 15) == 5) Check(M298(x) == (x % 5 == 0 ? -298 : x + 298));
            Check(M299(x) == ((x * 3) ^ 299));
            Check(M300(x) == x && M300(name) == name);
            Check(M301(x) == Steps(x) + 301);
            Check(M302(name) == (name.Length > 302 ? name : null));
            Check(M303(new Pair { A = x, B = 2 }).B == x + 303);
            Check(M304(x) == x + 304);
            Check(M305(x) == (x % 7 == 0 ? 305 : x + 3));
            if ((x & 15) == 6) Check(M306(x) == (x % 5 == 0 ? -306 : x + 306));
            Check(M307(x) == ((x * 3) ^ 307));
            Check(M308(x) == x && M308(name) == name);
            Check(M309(x) == Steps(x) + 309);
            Check(M310(name) == (name.Length > 310 ? name : null));
            Check(M311(new Pair { A = x, B = 2 }).B == x + 311);
            Check(M312(x) == x + 312);
            Check(M313(x) == (x % 7 == 0 ? 313 : x + 3));
            if ((x & 15) == 7) Check(M314(x) == (x % 5 == 0 ? -314 : x + 314));
            Check(M315(x) == ((x * 3) ^ 315));
            Check(M316(x) == x && M316(name) == name);
            Check(M317(x) == Steps(x) + 317);
            Check(M318(name) == (name.Length > 318 ? name : null));
            Check(M319(new Pair { A = x, B = 2 }).B == x + 319);
            Check(M320(x) == x + 320);
            Check(M321(x) == (x % 7 == 0 ? 321 : x + 3));
            if ((x & 15) == 8) Check(M322(x) == (x % 5 == 0 ? -322 : x + 322));
            Check(M323(x) == ((x * 3) ^ 323));
            Check(M324(x) == x && M324(name) == name);
            Check(M325(x) == Steps(x) + 325);
            Check(M326(name) == (name.Length > 326 ? name : null));
            Check(M327(new Pair { A = x, B = 2 }).B == x + 327);
            Check(M328(x) == x + 328);
            Check(M329(x) == (x % 7 == 0 ? 329 : x + 3));
            if ((x & 15) == 9) Check(M330(x) == (x % 5 == 0 ? -330 : x + 330));
            Check(M331(x) == ((x * 3) ^ 331));
            Check(M332(x) == x && M332(name) == name);
            Check(M333(x) == Steps(x) + 333);
            Check(M334(name) == (name.Length > 334 ? name : null));
            Check(M335(new Pair { A = x, B = 2 }).B == x + 335);
            Check(M336(x) == x + 336);
            Check(M337(x) == (x % 7 == 0 ? 337 : x + 3));
            if ((x & 15) == 10) Check(M338(x) == (x % 5 == 0 ? -338 : x + 338));
            Check(M339(x) == ((x * 3) ^ 339));
            Check(M340(x) == x && M340(name) == name);
            Check(M341(x) == Steps(x) + 341);
            Check(M342(name) == (name.Length > 342 ? name : null));
            Check(M343(new Pair { A = x, B = 2 }).B == x + 343);
            Check(M344(x) == x + 344);
            Check(M345(x) == (x % 7 == 0 ? 345 : x + 3));
            if ((x & 15) == 11) Check(M346(x) == (x % 5 == 0 ? -346 : x + 346));
            Check(M347(x) == ((x * 3) ^ 347));
            Check(M348(x) == x && M348(name) == name);
            Check(M349(x) == Steps(x) + 349);
            Check(M350(name) == (name.Length > 350 ? name : null));
            Check(M351(new Pair { A = x, B = 2 }).B == x + 351);
            Check(M352(x) == x + 352);
            Check(M353(x) == (x % 7 == 0 ? 353 : x + 3));
            if ((x & 15) == 12) Check(M354(x) == (x % 5 == 0 ? -354 : x + 354));
            Check(M355(x) == ((x * 3) ^ 355));
            Check(M356(x) == x && M356(name) == name);
            Check(M357(x) == Steps(x) + 357);
            Check(M358(name) == (name.Length > 358 ? name : null));
            Check(M359(new Pair { A = x, B = 2 }).B == x + 359);
            Check(M360(x) == x + 360);
            Check(M361(x) == (x % 7 == 0 ? 361 : x + 3));
            if ((x & 15) == 13) Check(M362(x) == (x % 5 == 0 ? -362 : x + 362));
            Check(M363(x) == ((x * 3) ^ 363));
            Check(M364(x) == x && M364(name) == name);
            Check(M365(x) == Steps(x) + 365);
            Check(M366(name) == (name.Length > 366 ? name : null));
            Check(M367(new Pair { A = x, B = 2 }).B == x + 367);
            Check(M368(x) == x + 368);
            Check(M369(x) == (x % 7 == 0 ? 369 : x + 3));
            if ((x & 15) == 14) Check(M370(x) == (x % 5 == 0 ? -370 : x + 370));
            Check(M371(x) == ((x * 3) ^ 371));
            Check(M372(x) == x && M372(name) == name);
            Check(M373(x) == Steps(x) + 373);
            Check(M374(name) == (name.Length > 374 ? name : null));
            Check(M375(new Pair { A = x, B = 2 }).B == x + 375);
            Check(M376(x) == x + 376);
            Check(M377(x) == (x % 7 == 0 ? 377 : x + 3));
            if ((x & 15) == 15) Check(M378(x) == (x % 5 == 0 ? -378 : x + 378));
            Check(M379(x) == ((x * 3) ^ 379));
            Check(M380(x) == x && M380(name) == name);
            Check(M381(x) == Steps(x) + 381);
            Check(M382(name) == (name.Length > 382 ? name : null));
            Check(M383(new Pair { A = x, B = 2 }).B == x + 383);
            Check(M384(x) == x + 384);
            Check(M385(x) == (x % 7 == 0 ? 385 : x + 3));
            if ((x & 15) == 0) Check(M386(x) == (x % 5 == 0 ? -386 : x + 386));
            Check(M387(x) == ((x * 3) ^ 387));
            Check(M388(x) == x && M388(name) == name);
            Check(M389(x) == Steps(x) + 389);
            Check(M390(name) == (name.Length > 390 ? name : null));
            Check(M391(new Pair { A = x, B = 2 }).B == x + 391);
            Check(M392(x) == x + 392);
            Check(M393(x) == (x % 7 == 0 ? 393 : x + 3));
            if ((x & 15) == 1) Check(M394(x) == (x % 5 == 0 ? -394 : x + 394));
            Check(M395(x) == ((x * 3) ^ 395));
            Check(M396(x) == x && M396(name) == name);
            Check(M397(x) == Steps(x) + 397);
            Check(M398(name) == (name.Length > 398 ? name : null));
            Check(M399(new Pair { A = x, B = 2 }).B == x + 399);
        }

        public static int Main(string[] arguments)
        {
            int threads = arguments.Length > 1 && arguments[0] == "--threads" ? int.Parse(arguments[1], CultureInfo.InvariantCulture) : 8;
            long rounds = 0;
            var all = Enumerable.Range(0, threads).Select(index => new Thread(() =>
            {
                long round = 0;
                string name = new string('x', 100 + index);
                for (; !Volatile.Read(ref over); round++) Round(round, name);
                Interlocked.Add(ref rounds, round);
            }) { Name = "caller-" + index }).ToList();
            all.ForEach(thread => thread.Start());
            Thread.Sleep(500);
            Console.WriteLine("ready");
            while (Console.ReadLine() != null) { }
            Volatile.Write(ref over, true);
            all.ForEach(thread => thread.Join());
            Console.WriteLine("{\"rounds\":" + rounds + ",\"wrong\":" + wrong + "}");
            return wrong == 0 ? 0 : 3;
        }
    }
}
