/* The part of OpenSSL's public interface that is used, found in the library that Python's own ssl has loaded. So there
 * is one OpenSSL in the process, which is renewed with Python or the system. Each function has been there, as it is
 * here, since OpenSSL 1.1.1. Called by tls.h. */
#ifndef SA_TLS_OPENSSL_H
#define SA_TLS_OPENSSL_H

#include <Python.h>
#include <stddef.h>

typedef struct SslContext SslContext;
typedef struct Ssl Ssl;
typedef struct SslCipher SslCipher;
typedef struct SslMethod SslMethod;
typedef struct Store Store;
typedef struct VerifyParameters VerifyParameters;

/* Kinds of errors, and of controls for which OpenSSL's headers have macros. */
enum { SSL_NO_ERROR = 0, SSL_FAILED = 1, SSL_WANTS_READ = 2, SSL_WANTS_WRITE = 3, SSL_SYSTEM = 5, SSL_ENDED = 6 };
enum { CONTROL_MODE = 33, CONTROL_SERVER_NAME = 55, CONTROL_READ_AHEAD = 41, CONTROL_LEAST_PROTOCOL = 123 };
enum { MODE_PARTIAL_WRITE = 1, MODE_MOVING_BUFFER = 2, MODE_AUTO_RETRY = 4 };
enum { TLS_1_2 = 0x0303, VERIFY_NONE = 0, VERIFY_PEER = 1, FILE_OF_PEM = 1, CHECK_REVOKED = 4, WHOLE_WILDCARDS = 4 };

#define SA_OPENSSL(X)                                                                         \
    X(const SslMethod *, TLS_client_method, (void))                                           \
    X(SslContext *, SSL_CTX_new, (const SslMethod *))                                         \
    X(void, SSL_CTX_free, (SslContext *))                                                     \
    X(long, SSL_CTX_ctrl, (SslContext *, int, long, void *))                                  \
    X(void, SSL_CTX_set_default_read_buffer_len, (SslContext *, size_t))                      \
    X(void, SSL_CTX_set_verify, (SslContext *, int, void *))                                  \
    X(int, SSL_CTX_set_cipher_list, (SslContext *, const char *))                             \
    X(int, SSL_CTX_set_default_verify_paths, (SslContext *))                                  \
    X(int, SSL_CTX_load_verify_locations, (SslContext *, const char *, const char *))         \
    X(Store *, SSL_CTX_get_cert_store, (const SslContext *))                                  \
    X(int, X509_STORE_set_flags, (Store *, unsigned long))                                    \
    X(void, SSL_CTX_set_default_passwd_cb, (SslContext *, int (*)(char *, int, int, void *))) \
    X(void, SSL_CTX_set_default_passwd_cb_userdata, (SslContext *, void *))                   \
    X(int, SSL_CTX_use_certificate_chain_file, (SslContext *, const char *))                  \
    X(int, SSL_CTX_use_PrivateKey_file, (SslContext *, const char *, int))                    \
    X(int, SSL_CTX_check_private_key, (const SslContext *))                                   \
    X(Ssl *, SSL_new, (SslContext *))                                                         \
    X(void, SSL_free, (Ssl *))                                                                \
    X(long, SSL_ctrl, (Ssl *, int, long, void *))                                             \
    X(int, SSL_set_fd, (Ssl *, int))                                                          \
    X(VerifyParameters *, SSL_get0_param, (Ssl *))                                            \
    X(int, X509_VERIFY_PARAM_set1_ip_asc, (VerifyParameters *, const char *))                 \
    X(int, X509_VERIFY_PARAM_set1_host, (VerifyParameters *, const char *, size_t))           \
    X(void, X509_VERIFY_PARAM_set_hostflags, (VerifyParameters *, unsigned int))              \
    X(int, SSL_connect, (Ssl *))                                                              \
    X(int, SSL_read_ex, (Ssl *, void *, size_t, size_t *))                                    \
    X(int, SSL_write_ex, (Ssl *, const void *, size_t, size_t *))                             \
    X(int, SSL_has_pending, (const Ssl *))                                                    \
    X(int, SSL_get_error, (const Ssl *, int))                                                 \
    X(long, SSL_get_verify_result, (const Ssl *))                                             \
    X(const char *, SSL_get_version, (const Ssl *))                                           \
    X(const SslCipher *, SSL_get_current_cipher, (const Ssl *))                               \
    X(const char *, SSL_CIPHER_get_name, (const SslCipher *))                                 \
    X(const char *, X509_verify_cert_error_string, (long))                                    \
    X(void, ERR_clear_error, (void))                                                          \
    X(unsigned long, ERR_peek_error, (void))                                                  \
    X(const char *, ERR_reason_error_string, (unsigned long))

#define SA_DECLARE_SSL(result, function, parameters) extern result(*sa_##function) parameters;
SA_OPENSSL(SA_DECLARE_SSL)
#undef SA_DECLARE_SSL

/* Finds them, once; 0, or -1 with ImportError that says what to do. */
int sa_find_openssl(void);

#endif
