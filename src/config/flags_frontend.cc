#include "config/flags.h"

namespace octavo::config {
namespace {

/// uvicorn writes access lines at info; from warning on they are silent.
bool mutes_access_lines(std::string_view uvicorn_level) {
  return uvicorn_level == "warning" || uvicorn_level == "error" || uvicorn_level == "critical";
}

// What the HTTP side does: address, keys, logs, templates.
constexpr auto
    kFrontendFlags =
        std::to_array<Flag>(
            {
                built("config", Kind::kString, "unset", Group::kOptions, 'A',
                      "YAML file whose keys are flag names without dashes; the command line wins "
                      "over it.",
                      [](Config&, const Value&) {}),
                built("disable-log-stats", Kind::kSwitch, "False", Group::kOptions, 'A',
                      "Writes no stats line.",
                      [](Config& c, const Value& v) { c.frontend.disable_log_stats = v.boolean; }),
                built(
                    "enable-log-requests", Kind::kBool, "False", Group::kOptions, 'A',
                    "Logs a line per request (never its text).",
                    [](Config& c, const Value& v) { c.frontend.enable_log_requests = v.boolean; }),
                built("host", Kind::kString, "unset", Group::kFrontend, 'A',
                      "Address to bind; 0.0.0.0 for every interface. Set an --api-key then.",
                      [](Config& c, const Value& v) {
                        if (!v.is_unset) c.server.host = v.text;
                      },
                      {.octavo_default = "127.0.0.1"}),
                built("port", Kind::kInt, "8000", Group::kFrontend, 'A',
                      "Port to bind; 0 takes a free one.",
                      [](Config& c, const Value& v) { c.server.port = v.integer; },
                      {.bounds = ">=0 <=65535"}),
                built("uds", Kind::kString, "unset", Group::kFrontend, 'A',
                      "Path of a Unix socket to serve on instead of host and port.",
                      [](Config& c, const Value& v) { c.server.uds = v.text; }),
                built("api-key", Kind::kList, "unset", Group::kFrontend, 'A',
                      "Keys that clients must present, on every route but the health checks. "
                      "VLLM_API_KEY is "
                      "used when the flag is absent.",
                      [](Config& c, const Value& v) { c.server.api_key = v.list; },
                      {.is_secret = true}),
                built("ssl-keyfile", Kind::kString, "unset", Group::kFrontend, 'A',
                      "Private key for TLS (PEM).",
                      [](Config& c, const Value& v) { c.server.ssl_keyfile = v.text; }),
                built("ssl-certfile", Kind::kString, "unset", Group::kFrontend, 'A',
                      "Certificate chain for TLS (PEM).",
                      [](Config& c, const Value& v) { c.server.ssl_certfile = v.text; }),
                built("root-path", Kind::kString, "unset", Group::kFrontend, 'B',
                      "Path prefix that a proxy in front adds.",
                      [](Config& c, const Value& v) { c.server.root_path = v.text; }),
                built("allow-credentials", Kind::kBool, "False", Group::kFrontend, 'B',
                      "CORS: browsers may send credentials.",
                      [](Config& c, const Value& v) { c.server.allow_credentials = v.boolean; }),
                built("allowed-origins", Kind::kJsonList, "[]", Group::kFrontend, 'A',
                      "CORS: origins that may read answers, as a JSON list.",
                      [](Config& c, const Value& v) { c.server.allowed_origins = v.list; }),
                built("allowed-methods", Kind::kJsonList, "[\"*\"]", Group::kFrontend, 'A',
                      "CORS: methods, as a JSON list.",
                      [](Config& c, const Value& v) { c.server.allowed_methods = v.list; }),
                built("allowed-headers", Kind::kJsonList, "[\"*\"]", Group::kFrontend, 'A',
                      "CORS: headers, as a JSON list.",
                      [](Config& c, const Value& v) { c.server.allowed_headers = v.list; }),
                built("uvicorn-log-level", Kind::kEnum, "info", Group::kFrontend, 'A',
                      "From warning on, access lines are not written.",
                      [](Config& c, const Value& v) {
                        if (mutes_access_lines(v.text)) c.server.disable_uvicorn_access_log = true;
                      },
                      {.choices = "critical error warning info debug trace"}),
                built("disable-uvicorn-access-log", Kind::kBool, "False", Group::kFrontend, 'A',
                      "Writes no access line per request.",
                      [](Config& c,
                         const Value& v) { c.server.disable_uvicorn_access_log = v.boolean; }),
                built("disable-access-log-for-endpoints", Kind::kString, "unset", Group::kFrontend,
                      'B', "Exact paths without access lines, separated by commas.",
                      [](Config& c, const Value& v) {
                        c.server.disable_access_log_for_endpoints = v.text;
                      }),
                built("enable-request-id-headers", Kind::kBool, "False", Group::kFrontend, 'A',
                      "Adds X-Request-Id to responses.",
                      [](Config& c,
                         const Value& v) { c.server.enable_request_id_headers = v.boolean; }),
                built("enable-server-load-tracking", Kind::kBool, "False", Group::kFrontend, 'A',
                      "Makes /load count the requests in flight.",
                      [](Config& c,
                         const Value& v) { c.server.enable_server_load_tracking = v.boolean; }),
                built("sse-keep-alive-interval", Kind::kInt, "0", Group::kFrontend, 'B',
                      "Seconds between comment lines on an idle stream; 0: none.",
                      [](Config& c, const Value& v) {
                        c.server.sse_keep_alive_interval_s = v.integer;
                      },
                      {.bounds = ">=0 <=86400"}),
                built("h11-max-header-count", Kind::kInt, "256", Group::kFrontend, 'B',
                      "Most header lines of a request.",
                      [](Config& c, const Value& v) { c.server.max_header_count = v.integer; },
                      {.bounds = ">=1 <=65536"}),
                built("chat-template", Kind::kString, "unset", Group::kFrontend, 'A',
                      "Template file, or the template itself, instead of the model's.",
                      [](Config& c, const Value& v) { c.frontend.chat_template = v.text; }),
                built(
                    "chat-template-content-format", Kind::kEnum, "auto", Group::kFrontend, 'A',
                    "Whether the template sees message content as a string or as a list of parts.",
                    [](Config& c, const Value& v) {
                      c.frontend.chat_template_content_format = v.text;
                    },
                    {.choices = "auto string openai"}),
                built("default-chat-template-kwargs", Kind::kJson, "unset", Group::kFrontend, 'A',
                      "Variables for the template; those of a request win.",
                      [](Config& c, const Value& v) {
                        c.frontend.default_chat_template_kwargs = v.is_unset ? "{}" : v.text;
                      }),
                built("trust-request-chat-template", Kind::kBool, "False", Group::kFrontend, 'B',
                      "Lets a request bring its own chat template.",
                      [](Config& c,
                         const Value& v) { c.frontend.trust_request_chat_template = v.boolean; }),
                built("response-role", Kind::kString, "assistant", Group::kFrontend, 'A',
                      "Role of the generated message.",
                      [](Config& c, const Value& v) { c.frontend.response_role = v.text; }),
                built("return-tokens-as-token-ids", Kind::kBool, "False", Group::kFrontend, 'B',
                      "Shows tokens in logprobs as token_id:<n>.",
                      [](Config& c,
                         const Value& v) { c.frontend.return_tokens_as_token_ids = v.boolean; }),
                built("enable-force-include-usage", Kind::kBool, "False", Group::kFrontend, 'B',
                      "Sends usage on every stream.",
                      [](Config& c,
                         const Value& v) { c.frontend.enable_force_include_usage = v.boolean; }),
                built("log-level", Kind::kEnum, "unset", Group::kLogging, 'A',
                      "Least level that is logged; VLLM_LOGGING_LEVEL is used when the flag is "
                      "absent.",
                      [](Config& c, const Value& v) {
                        if (!v.is_unset) c.log_level = v.text;
                      },
                      {.choices = "CRITICAL ERROR WARNING INFO DEBUG NOTSET"}),
                built("stream-interval", Kind::kInt, "1", Group::kScheduler, 'B',
                      "Tokens per streamed chunk; the first and the last go at once.",
                      [](Config& c, const Value& v) { c.frontend.stream_interval = v.integer; },
                      {.bounds = ">=1"}),
                built("shutdown-timeout", Kind::kInt, "0", Group::kVllm, 'A',
                      "Seconds that running requests get to finish after SIGTERM; 0 aborts them at "
                      "once.",
                      [](Config& c, const Value& v) { c.server.shutdown_timeout_s = v.integer; },
                      {.bounds = ">=0 <=86400", .octavo_default = "30"}),
            });

// Flags that vLLM does not have.
constexpr auto kOctavoFlags = std::to_array<Flag>({
    built("unguarded-metrics", Kind::kBool, "False", Group::kOctavo, 'A',
          "Serves /metrics without the API key, for a scraper that cannot send one.",
          [](Config& c, const Value& v) { c.server.unguarded_metrics = v.boolean; }),
    built("special-tokens-in-content", Kind::kBool, "False", Group::kOctavo, 'A',
          "Reads special tokens spelled in message content as control tokens, as vLLM does.",
          [](Config& c, const Value& v) { c.frontend.special_tokens_in_content = v.boolean; }),
    built("kernel", Kind::kEnum, "auto", Group::kOctavo, 'A',
          "Highest instruction set that kernels may use; auto: the best of this CPU.",
          [](Config& c, const Value& v) { c.engine.kernel = v.text; },
          {.choices = "auto generic avx2 avx2_vnni avx512_core avx512"}),
    built("num-threads", Kind::kInt, "0", Group::kOctavo, 'A',
          "Threads that compute; 0: the CPUs this process may use.",
          [](Config& c, const Value& v) { c.engine.num_threads = static_cast<int>(v.integer); },
          {.bounds = ">=0 <=1024"}),
    built(
        "num-http-threads", Kind::kInt, "1", Group::kOctavo, 'B', "Threads that serve HTTP.",
        [](Config& c, const Value& v) { c.server.num_http_threads = static_cast<int>(v.integer); },
        {.bounds = ">=1 <=256"}),
    built("max-request-body-bytes", Kind::kHumanInt, "33554432", Group::kOctavo, 'A',
          "Largest request body; a larger one gets 413.",
          [](Config& c, const Value& v) { c.server.max_request_body_bytes = v.integer; },
          {.bounds = ">=1"}),
    built("max-header-bytes", Kind::kHumanInt, "65536", Group::kOctavo, 'B',
          "Most bytes of a request's header; more get 431.",
          [](Config& c, const Value& v) { c.server.max_header_bytes = v.integer; },
          {.bounds = ">=1024 <=16777216"}),
    built("header-timeout-ms", Kind::kInt, "10000", Group::kOctavo, 'B',
          "Time for a request's header to arrive; then 408.",
          [](Config& c, const Value& v) { c.server.header_timeout_ms = v.integer; },
          {.bounds = ">=1 <=86400000"}),
    built("body-timeout-ms", Kind::kInt, "60000", Group::kOctavo, 'B',
          "Time for a request's body to arrive; then 408.",
          [](Config& c, const Value& v) { c.server.body_timeout_ms = v.integer; },
          {.bounds = ">=1 <=86400000"}),
    built("write-timeout-ms", Kind::kInt, "60000", Group::kOctavo, 'B',
          "A client that reads nothing for so long is cut off.",
          [](Config& c, const Value& v) { c.server.write_timeout_ms = v.integer; },
          {.bounds = ">=1 <=86400000"}),
    built("max-connections", Kind::kInt, "16384", Group::kOctavo, 'B', "Most open connections.",
          [](Config& c, const Value& v) { c.server.max_connections = v.integer; },
          {.bounds = ">=1"}),
    built("max-json-depth", Kind::kInt, "128", Group::kOctavo, 'B',
          "Deepest nesting of a request's JSON.",
          [](Config& c, const Value& v) { c.server.max_json_depth = v.integer; },
          {.bounds = ">=1 <=1024"}),
    built("max-buffered-response-bytes", Kind::kHumanInt, "4194304", Group::kOctavo, 'B',
          "Most unread bytes of one stream before its client is cut off.",
          [](Config& c, const Value& v) { c.server.max_buffered_response_bytes = v.integer; },
          {.bounds = ">=4096"}),
    built("max-queued-prompt-bytes", Kind::kHumanInt, "1073741824", Group::kOctavo, 'B',
          "Most bytes of token ids that wait in the queue; more are answered with 503.",
          [](Config& c, const Value& v) { c.engine.max_queued_prompt_bytes = v.integer; },
          {.bounds = ">=1"}),
});

}  // namespace

std::span<const Flag> frontend_flags() { return kFrontendFlags; }
std::span<const Flag> octavo_flags() { return kOctavoFlags; }

}  // namespace octavo::config
