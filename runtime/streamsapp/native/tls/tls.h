/* A TLS connection over a socket. Called by brokers/transport.py, on one thread at a time. Bytes are decrypted into the
 * caller's buffer without the interpreter's lock, in one call for all records that are there. Python's ssl has to get
 * the lock anew for each 16 KiB, and waits for it up to 5 ms while another thread computes. */
#ifndef SA_TLS_TLS_H
#define SA_TLS_TLS_H

#include <Python.h>

#include "tls/openssl.h"

extern PyTypeObject sa_tls_type;

/* A connection whose other side has to prove that it has this name, or address, if that is checked. */
PyObject *sa_tls_of(SslContext *context, int descriptor, const char *name, int checked);

#endif
