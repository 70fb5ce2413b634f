/* The settings of a client's TLS connections: authorities, its own certificate, ciphers. Made by
 * brokers/tls_context.py, with the interpreter's lock; a connection that began keeps what it began with. */
#ifndef SA_TLS_TLS_CONTEXT_H
#define SA_TLS_TLS_CONTEXT_H

#include "base/fields.h"
#include "tls/openssl.h"

typedef struct {
    PyObject_HEAD
    SslContext *context;
    PyObject *password; /* bytes, while a key is read */
    char verified;      /* says whether the other side has to show a certificate that is believed */
} TlsContext;

extern MadeType sa_tls_context_type;

#endif
