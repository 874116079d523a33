/* What mypyc's code calls when something has failed. The C compiler places what leads there, which is the larger part of a function,
   apart from what runs: fewer cache lines and pages of code are touched for each request. Included before everything else. */
typedef struct _object PyObject;
static void CPy_DecRef(PyObject *p) __attribute__((cold));
void CPy_TypeError(const char *expected, PyObject *value) __attribute__((cold));
void CPy_AddTraceback(const char *filename, const char *funcname, int line, PyObject *globals) __attribute__((cold));
void CPy_TypeErrorTraceback(const char *filename, const char *funcname, int line, PyObject *globals, const char *expected,
                            PyObject *value) __attribute__((cold));
void CPy_AttributeError(const char *filename, const char *funcname, const char *classname, const char *attrname, int line,
                        PyObject *globals) __attribute__((cold));
