/* Extension module with the machine code of kernels; it loads neither numba nor LLVM.

   numba compiles each kernel with a wrapper for Python arguments. The wrappers call numba's helper functions, whose
   sources are in numba's package. Wrappers do not check types, so `Fits` checks types as numba's dispatcher does.
   `ascpipe/kernels/linking.py` writes the table of kernels, kernels.h. */
#include "_numba_common.h"
#include "_pymodule.h"

#define NUMBA_EXPORT_FUNC(_rettype) VISIBILITY_HIDDEN _rettype
#define NUMBA_EXPORT_DATA(_vartype) VISIBILITY_HIDDEN _vartype
#define PYCC_COMPILING

#include "_helperlib.c"
#include "_dynfunc.c"
#include "core/runtime/_nrt_python.c"
#if __has_include("core/runtime/nrt.c")
#include "core/runtime/nrt.c"

static size_t AtomicAdd(size_t *count) { return __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST); }
static size_t AtomicSubtract(size_t *count) { return __atomic_sub_fetch(count, 1, __ATOMIC_SEQ_CST); }
static void SetAtomics(void) { NRT_MemSys_set_atomic_inc_dec(AtomicAdd, AtomicSubtract); }
#else /* numba 0.58 or later: linking.py compiles nrt.cpp, which has its own atomic operations */
#include "core/runtime/nrt.h"

static void SetAtomics(void) {}
#endif

typedef enum { ARRAY, RECORD, NUMBER, TUPLE } Kind;

typedef struct {
  Kind kind;
  int parts;      /* dimensions of an array, or number of items of a tuple; the items follow */
  char type;      /* numpy's letter for the kind of an array's items */
  int item_bytes; /* size of an item of an array, or of a record */
  int contiguous; /* 1 if an array must be contiguous */
  int writeable;  /* 1 if an array must be writeable */
  int aligned;    /* 1 if an array must be aligned */
} Argument;

typedef struct {
  PyCFunctionWithKeywords wrapper;
  const Argument *arguments;
  int count;
} Overload;

typedef struct {
  PyMethodDef method;
  const Overload *overloads;
  int count;
} Kernel;

#include "kernels.h"

static const char kCapsule[] = "ascpipe.kernel";

static int FitsArray(const Argument *wanted, PyObject *given) {
  PyArrayObject *array = (PyArrayObject *)given;
  if (!PyArray_Check(given)) return 0;
  return PyArray_NDIM(array) == wanted->parts && PyArray_DESCR(array)->kind == wanted->type &&
         PyArray_ITEMSIZE(array) == wanted->item_bytes && PyArray_ISNOTSWAPPED(array) &&
         (!wanted->contiguous || PyArray_IS_C_CONTIGUOUS(array)) &&
         (!wanted->writeable || PyArray_ISWRITEABLE(array)) && (!wanted->aligned || PyArray_ISALIGNED(array));
}

static int FitsRecord(const Argument *wanted, PyObject *given) {
  if (!PyObject_TypeCheck(given, &PyVoidArrType_Type)) return 0;
  return ((PyVoidScalarObject *)given)->descr->elsize == wanted->item_bytes;
}

/* Returns 1 if an object may be passed for `wanted`, and moves `wanted` to the next argument. */
static int Fits(const Argument **wanted, PyObject *given) {
  const Argument *self = (*wanted)++;
  Py_ssize_t i;
  switch (self->kind) {
    case ARRAY:
      return FitsArray(self, given);
    case RECORD:
      return FitsRecord(self, given);
    case NUMBER:
      return PyLong_Check(given) || PyArray_IsScalar(given, Integer) || PyArray_IsScalar(given, Bool);
    case TUPLE:
      if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != self->parts) return 0;
      for (i = 0; i < self->parts; ++i) {
        if (!Fits(wanted, PyTuple_GET_ITEM(given, i))) return 0;
      }
      return 1;
  }
  return 0;
}

static PyObject *Call(PyObject *capsule, PyObject *given) {
  const Kernel *kernel = (const Kernel *)PyCapsule_GetPointer(capsule, kCapsule);
  int i;
  if (kernel == NULL) return NULL;
  for (i = 0; i < kernel->count; ++i) {
    const Overload *overload = kernel->overloads + i;
    const Argument *wanted = overload->arguments;
    Py_ssize_t place = 0;
    if (PyTuple_GET_SIZE(given) != overload->count) continue;
    while (place < overload->count && Fits(&wanted, PyTuple_GET_ITEM(given, place))) ++place;
    if (place == overload->count) return overload->wrapper(NULL, given, NULL);
  }
  return PyErr_Format(PyExc_TypeError, "%s takes no arguments of these types", kernel->method.ml_name);
}

static int AddKernel(PyObject *module, Kernel *kernel) {
  int failed;
  PyObject *function, *capsule = PyCapsule_New(kernel, kCapsule, NULL);
  if (capsule == NULL) return -1;
  kernel->method.ml_meth = Call;
  kernel->method.ml_flags = METH_VARARGS;
  function = PyCFunction_New(&kernel->method, capsule);
  Py_DECREF(capsule);
  if (function == NULL) return -1;
  failed = PyDict_SetItemString(PyModule_GetDict(module), kernel->method.ml_name, function);
  Py_DECREF(function);
  return failed;
}

/* The helpers for strings and sets need these variables, which numba defines in other processes. */
int64_t _numba_hashsecret_siphash_k0, _numba_hashsecret_siphash_k1, _numba_hashsecret_djbx33a_suffix;

static struct PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "ascpipe_kernels", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_ascpipe_kernels(void) {
  size_t i;
  PyObject *module;
  import_array();
  module = PyModule_Create(&kModule);
  if (module == NULL) return NULL;
  NRT_MemSys_init();
  SetAtomics();
  if (init_dynfunc_module(module) || init_nrt_python_module(module)) goto error;
  /* An environment contains the constants of a function. No kernel has an environment, but wrappers need an object. */
  for (i = 0; i < sizeof(kEnvironments) / sizeof(kEnvironments[0]); ++i) *kEnvironments[i] = Py_None;
  for (i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); ++i) {
    if (AddKernel(module, &kKernels[i])) goto error;
  }
  return module;
error:
  Py_DECREF(module);
  return NULL;
}
