/* The one function by which barnabas/cores.py makes the modules of the binary: mypyc hands out what makes each of them
   in a capsule, and leaves the call to a file of its own for every module. */
#include <Python.h>

static PyObject *make(PyObject *self, PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    void *init = name ? PyCapsule_GetPointer(capsule, name) : NULL;
    if (!init) {
        return NULL;
    }
    return ((PyObject *(*)(void))init)();
}

static PyMethodDef methods[] = {{"make", make, METH_O, "Make a module."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "barnabas_cores_loader", NULL, -1, methods};

PyMODINIT_FUNC PyInit_barnabas_cores_loader(void)
{
    return PyModule_Create(&definition);
}
