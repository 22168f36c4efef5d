/*
 * Node-API addon for the attack suite: makes any system call, bypassing Node.js. Declares the functions of Node-API,
 * so that only a C compiler is needed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
extern int napi_get_cb_info(napi_env, napi_callback_info, size_t *, napi_value *, napi_value *, void **);
extern int napi_get_value_int64(napi_env, napi_value, int64_t *);
extern int napi_get_buffer_info(napi_env, napi_value, void **, size_t *);
extern int napi_is_buffer(napi_env, napi_value, _Bool *);
extern int napi_create_int64(napi_env, int64_t, napi_value *);
extern int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
extern int napi_set_named_property(napi_env, napi_value, const char *, napi_value);

static napi_value number(napi_env env, long value) {
  napi_value result;
  napi_create_int64(env, value, &result);
  return result;
}

/* call(number, ...arguments): integers, or buffers, which are passed by address. Returns the result or -errno. */
static napi_value call(napi_env env, napi_callback_info info) {
  size_t count = 7;
  napi_value values[7];
  long arguments[7] = {0};
  napi_get_cb_info(env, info, &count, values, NULL, NULL);
  for (size_t at = 0; at < count; at++) {
    _Bool is_buffer = 0;
    void *data;
    size_t length;
    napi_is_buffer(env, values[at], &is_buffer);
    if (is_buffer && napi_get_buffer_info(env, values[at], &data, &length) == 0) arguments[at] = (long)data;
    else napi_get_value_int64(env, values[at], &arguments[at]);
  }
  long result = syscall(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], arguments[6]);
  return number(env, result == -1 ? -errno : result);
}

/* startProcess(number, flags): a raw fork, vfork or clone, whose child exits immediately. */
static napi_value start_process(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value values[2];
  int64_t arguments[2] = {0};
  napi_get_cb_info(env, info, &count, values, NULL, NULL);
  for (size_t at = 0; at < count; at++) napi_get_value_int64(env, values[at], &arguments[at]);
  long result = syscall(arguments[0], arguments[1], 0, 0, 0, 0);
  if (result == 0) syscall(SYS_exit_group, 0);
  int failure = errno;
  if (result > 0) waitpid((pid_t)result, NULL, 0);
  return number(env, result == -1 ? -failure : result);
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  napi_create_function(env, "call", (size_t)-1, call, NULL, &function);
  napi_set_named_property(env, exports, "call", function);
  napi_create_function(env, "startProcess", (size_t)-1, start_process, NULL, &function);
  napi_set_named_property(env, exports, "startProcess", function);
  return exports;
}
