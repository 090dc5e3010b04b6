//! Result codes of the .NET runtime (`corerror.h`): facility 0x13.

crate::hresult::codes! {
    /// The codes that profiling, metadata and debugging calls return, and the exceptions they can
    /// stand for.
    KNOWN:
    CLDB_S_TRUNCATION = 0x0013_1106, "success, but the text was cut to the buffer";
    META_S_DUPLICATE = 0x0013_1197, "success: it existed already";
    COR_E_TYPEUNLOADED = 0x8013_1013, "the type has been unloaded";
    COR_E_APPDOMAINUNLOADED = 0x8013_1014, "the application domain has been unloaded";
    COR_E_ASSEMBLYEXPECTED = 0x8013_1018, "the file has no assembly manifest";
    COR_E_NEWER_RUNTIME = 0x8013_101B, "the assembly was built for a newer runtime";
    COR_E_LOADING_REFERENCE_ASSEMBLY = 0x8013_1058, "reference assemblies cannot be executed";
    COR_E_AMBIGUOUSIMPLEMENTATION = 0x8013_106A, "no interface implementation is the most specific";
    CLDB_E_FILE_BADREAD = 0x8013_1100, "the metadata cannot be read";
    CLDB_E_FILE_BADWRITE = 0x8013_1101, "the metadata cannot be written";
    CLDB_E_FILE_OLDVER = 0x8013_1107, "the metadata has an old format";
    CLDB_E_SMDUPLICATE = 0x8013_110A, "a shared definition exists twice";
    CLDB_E_NO_DATA = 0x8013_110B, "there is no such data";
    CLDB_E_INCOMPATIBLE = 0x8013_110D, "the metadata has an incompatible version";
    CLDB_E_FILE_CORRUPT = 0x8013_110E, "the metadata is corrupt";
    CLDB_E_BADUPDATEMODE = 0x8013_1110, "the metadata cannot be opened for this kind of change";
    CLDB_E_INDEX_NOTFOUND = 0x8013_1124, "no such index";
    CLDB_E_RECORD_NOTFOUND = 0x8013_1130, "no such record in the metadata";
    CLDB_E_RECORD_OUTOFORDER = 0x8013_1135, "records are not in order";
    CLDB_E_TOO_BIG = 0x8013_1154, "too big for the metadata";
    CLDB_E_INTERNALERROR = 0x8013_1FFF, "internal error of the metadata engine";
    META_E_INVALID_TOKEN_TYPE = 0x8013_115F, "the token is of the wrong kind";
    META_E_BADMETADATA = 0x8013_118A, "the metadata is malformed";
    META_E_BAD_SIGNATURE = 0x8013_1192, "the signature is malformed";
    META_E_BAD_INPUT_PARAMETER = 0x8013_1193, "a parameter is malformed";
    META_E_CANNOTRESOLVETYPEREF = 0x8013_1196, "the type reference cannot be resolved";
    META_E_STRINGSPACE_FULL = 0x8013_1198, "no room for more strings";
    META_E_HAS_UNMARKALL = 0x8013_119A, "UnmarkAll has been called already";
    META_E_MUST_CALL_UNMARKALL = 0x8013_119B, "UnmarkAll must be called first";
    META_E_CA_INVALID_TARGET = 0x8013_11C0, "the custom attribute is not allowed there";
    META_E_CA_INVALID_VALUE = 0x8013_11C1, "the custom attribute has an invalid value";
    META_E_CA_INVALID_BLOB = 0x8013_11C2, "the custom attribute's blob is malformed";
    META_E_CA_REPEATED_ARG = 0x8013_11C3, "the custom attribute has an argument twice";
    META_E_CA_UNKNOWN_ARGUMENT = 0x8013_11C4, "the custom attribute has an unknown argument";
    META_E_CA_UNEXPECTED_TYPE = 0x8013_11C7, "the custom attribute's argument has the wrong type";
    META_E_NOT_IN_ENC_MODE = 0x8013_11D4, "edit and continue is off";
    CORDBG_E_UNRECOVERABLE_ERROR = 0x8013_1300, "the debugger met an unrecoverable error";
    CORDBG_E_PROCESS_TERMINATED = 0x8013_1301, "the process has ended";
    CORDBG_E_PROCESS_NOT_SYNCHRONIZED = 0x8013_1302, "the process is not stopped";
    CORDBG_E_CLASS_NOT_LOADED = 0x8013_1303, "the class is not loaded";
    CORDBG_E_CODE_NOT_AVAILABLE = 0x8013_1309, "the code is not available";
    CORDBG_E_FUNCTION_NOT_IL = 0x8013_130A, "the function has no IL";
    CORDBG_E_MISSING_METADATA = 0x8013_1C35, "the metadata is missing";
    CORDBG_E_MODULE_NOT_LOADED = 0x8013_1343, "the module is not loaded";
    CORDBG_E_STATIC_VAR_NOT_AVAILABLE = 0x8013_131A, "the static field has no storage yet";
    CORDBG_E_FIELD_NOT_STATIC = 0x8013_133B, "the field is not static";
    CORDBG_E_NOTREADY = 0x8013_1C10, "the debugger is not ready";
    CORPROF_E_FUNCTION_NOT_COMPILED = 0x8013_1350, "the function is not compiled";
    CORPROF_E_DATAINCOMPLETE = 0x8013_1351, "what was asked for is not loaded completely yet";
    CORPROF_E_FUNCTION_NOT_IL = 0x8013_1354, "the method has no IL body";
    CORPROF_E_NOT_MANAGED_THREAD = 0x8013_1355, "the thread has run no managed code";
    CORPROF_E_CALL_ONLY_FROM_INIT = 0x8013_1356, "the method may be called only while the profiler \
        is initialized";
    CORPROF_E_NOT_YET_AVAILABLE = 0x8013_135B, "what was asked for does not exist yet";
    CORPROF_E_TYPE_IS_PARAMETERIZED = 0x8013_135C, "the type is generic; its arguments are needed";
    CORPROF_E_FUNCTION_IS_PARAMETERIZED = 0x8013_135D, "the function is generic; its arguments are \
        needed";
    CORPROF_E_STACKSNAPSHOT_INVALID_TGT_THREAD = 0x8013_135E, "the stack of this thread cannot be \
        walked now";
    CORPROF_E_STACKSNAPSHOT_UNMANAGED_CTX = 0x8013_135F, "the walk was to begin in native code and \
        no managed frame was found";
    CORPROF_E_STACKSNAPSHOT_UNSAFE = 0x8013_1360, "the stack cannot be walked safely now";
    CORPROF_E_STACKSNAPSHOT_ABORTED = 0x8013_1361, "the stack walk was ended by its callback";
    CORPROF_E_LITERALS_HAVE_NO_ADDRESS = 0x8013_1362, "a constant has no address";
    CORPROF_E_UNSUPPORTED_CALL_SEQUENCE = 0x8013_1363, "the method may not be called at this time \
        or from this thread";
    CORPROF_E_ASYNCHRONOUS_UNSAFE = 0x8013_1364, "the call is not safe while the thread is \
        interrupted";
    CORPROF_E_CLASSID_IS_ARRAY = 0x8013_1365, "the class is an array";
    CORPROF_E_CLASSID_IS_COMPOSITE = 0x8013_1366, "the class is a pointer, reference or other \
        composite type";
    CORPROF_E_PROFILER_DETACHING = 0x8013_1367, "the profiler is being detached";
    CORPROF_E_PROFILER_NOT_ATTACHABLE = 0x8013_1368, "the profiler cannot be attached to a running \
        process";
    CORPROF_E_UNRECOGNIZED_PIPE_MSG_FORMAT = 0x8013_1369, "the attach message has an unknown \
        format";
    CORPROF_E_PROFILER_ALREADY_ACTIVE = 0x8013_136A, "another profiler is active in this process";
    CORPROF_E_PROFILEE_INCOMPATIBLE_WITH_TRIGGER = 0x8013_136B, "the process has another version \
        of the attach protocol";
    CORPROF_E_IPC_FAILED = 0x8013_136C, "communication with the process failed";
    CORPROF_E_PROFILEE_PROCESS_NOT_FOUND = 0x8013_136D, "no such process, or no runtime in it";
    CORPROF_E_CALLBACK3_REQUIRED = 0x8013_136E, "the profiler does not implement \
        ICorProfilerCallback3";
    CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER = 0x8013_136F, "not available to a profiler that \
        attached to a running process";
    CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT = 0x8013_1370, "the profiler cannot be \
        detached: it has changed code permanently";
    CORPROF_E_RUNTIME_UNINITIALIZED = 0x8013_1371, "the runtime is not initialized yet";
    CORPROF_E_IMMUTABLE_FLAGS_SET = 0x8013_1372, "the profiler cannot be detached: it has set \
        flags that hold permanently";
    CORPROF_E_PROFILER_NOT_YET_INITIALIZED = 0x8013_1373, "the profiler is still being initialized";
    CORPROF_E_INCONSISTENT_WITH_FLAGS = 0x8013_1374, "the event mask does not allow this";
    CORPROF_E_PROFILER_CANCEL_ACTIVATION = 0x8013_1375, "the profiler does not want to be loaded";
    CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE = 0x8013_1376, "MONITOR_GC cannot be set while \
        concurrent collections are on";
    CORPROF_E_DEBUGGING_DISABLED = 0x8013_1378, "debugging is disabled";
    CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC = 0x8013_1379, "a concurrent collection did not \
        end in time";
    CORPROF_E_MODULE_IS_DYNAMIC = 0x8013_137A, "the module is dynamic";
    CORPROF_E_CALLBACK4_REQUIRED = 0x8013_137B, "the profiler does not implement \
        ICorProfilerCallback4";
    CORPROF_E_REJIT_NOT_ENABLED = 0x8013_137C, "ReJIT was not enabled when the profiler was \
        initialized";
    CORPROF_E_FUNCTION_IS_COLLECTIBLE = 0x8013_137E, "the function can be unloaded by the garbage \
        collector";
    CORPROF_E_CALLBACK6_REQUIRED = 0x8013_1380, "the profiler does not implement \
        ICorProfilerCallback6";
    CORPROF_E_CALLBACK7_REQUIRED = 0x8013_1382, "the profiler does not implement \
        ICorProfilerCallback7";
    CORPROF_E_REJIT_INLINING_DISABLED = 0x8013_1383, "inlining is not tracked";
    CORPROF_E_SUSPENSION_IN_PROGRESS = 0x8013_1388, "the runtime is already suspended, or is being \
        suspended";
    CORPROF_E_NOT_GC_OBJECT = 0x8013_1389, "this is not an object of the collected heap";
    CORPROF_E_MODULE_IS_ENC = 0x8013_138A, "the module can be edited while it runs";
    COR_E_EXCEPTION = 0x8013_1500, "System.Exception";
    COR_E_SYSTEM = 0x8013_1501, "System.SystemException";
    COR_E_ARGUMENTOUTOFRANGE = 0x8013_1502, "System.ArgumentOutOfRangeException";
    COR_E_ARRAYTYPEMISMATCH = 0x8013_1503, "System.ArrayTypeMismatchException";
    COR_E_TIMEOUT = 0x8013_1505, "System.TimeoutException";
    COR_E_EXECUTIONENGINE = 0x8013_1506, "System.ExecutionEngineException";
    COR_E_FIELDACCESS = 0x8013_1507, "System.FieldAccessException";
    COR_E_INDEXOUTOFRANGE = 0x8013_1508, "System.IndexOutOfRangeException";
    COR_E_INVALIDOPERATION = 0x8013_1509, "System.InvalidOperationException";
    COR_E_SECURITY = 0x8013_150A, "System.Security.SecurityException";
    COR_E_SERIALIZATION = 0x8013_150C, "System.Runtime.Serialization.SerializationException";
    COR_E_VERIFICATION = 0x8013_150D, "System.Security.VerificationException";
    COR_E_METHODACCESS = 0x8013_1510, "System.MethodAccessException";
    COR_E_MISSINGFIELD = 0x8013_1511, "System.MissingFieldException";
    COR_E_MISSINGMEMBER = 0x8013_1512, "System.MissingMemberException";
    COR_E_MISSINGMETHOD = 0x8013_1513, "System.MissingMethodException";
    COR_E_MULTICASTNOTSUPPORTED = 0x8013_1514, "System.MulticastNotSupportedException";
    COR_E_NOTSUPPORTED = 0x8013_1515, "System.NotSupportedException";
    COR_E_OVERFLOW = 0x8013_1516, "System.OverflowException";
    COR_E_RANK = 0x8013_1517, "System.RankException";
    COR_E_SYNCHRONIZATIONLOCK = 0x8013_1518, "System.Threading.SynchronizationLockException";
    COR_E_THREADINTERRUPTED = 0x8013_1519, "System.Threading.ThreadInterruptedException";
    COR_E_MEMBERACCESS = 0x8013_151A, "System.MemberAccessException";
    COR_E_THREADSTATE = 0x8013_1520, "System.Threading.ThreadStateException";
    COR_E_TYPELOAD = 0x8013_1522, "System.TypeLoadException";
    COR_E_ENTRYPOINTNOTFOUND = 0x8013_1523, "System.EntryPointNotFoundException";
    COR_E_DLLNOTFOUND = 0x8013_1524, "System.DllNotFoundException";
    COR_E_TYPEINITIALIZATION = 0x8013_1534, "System.TypeInitializationException";
    COR_E_FORMAT = 0x8013_1537, "System.FormatException";
    COR_E_PLATFORMNOTSUPPORTED = 0x8013_1539, "System.PlatformNotSupportedException";
    COR_E_INVALIDPROGRAM = 0x8013_153A, "System.InvalidProgramException";
    COR_E_OPERATIONCANCELED = 0x8013_153B, "System.OperationCanceledException";
    COR_E_INSUFFICIENTMEMORY = 0x8013_153D, "System.InsufficientMemoryException";
    COR_E_RUNTIMEWRAPPED = 0x8013_153E, "System.Runtime.CompilerServices.RuntimeWrappedException";
    COR_E_DATAMISALIGNED = 0x8013_1541, "System.DataMisalignedException";
    COR_E_TYPEACCESS = 0x8013_1543, "System.TypeAccessException";
    COR_E_KEYNOTFOUND = 0x8013_1577, "System.Collections.Generic.KeyNotFoundException";
    COR_E_INSUFFICIENTEXECUTIONSTACK = 0x8013_1578, "System.InsufficientExecutionStackException";
    COR_E_APPLICATION = 0x8013_1600, "System.ApplicationException";
    COR_E_TARGET = 0x8013_1603, "System.Reflection.TargetException";
    COR_E_TARGETINVOCATION = 0x8013_1604, "System.Reflection.TargetInvocationException";
    COR_E_REFLECTIONTYPELOAD = 0x8013_1602, "System.Reflection.ReflectionTypeLoadException";
    COR_E_IO = 0x8013_1620, "System.IO.IOException";
    COR_E_FILELOAD = 0x8013_1621, "System.IO.FileLoadException";
    COR_E_OBJECTDISPOSED = 0x8013_1622, "System.ObjectDisposedException";
    COR_E_FAILFAST = 0x8013_1623, "the process ended itself by FailFast";
}
