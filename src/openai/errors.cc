#include <array>

#include "openai/api.h"
#include "openai/json_writer.h"

namespace octavo::openai {
namespace {

struct ErrorRow {
  Code code;
  int status;
  std::string_view type;
};

/// Every failure that reaches a client through a Result, with vLLM's status and type.
constexpr auto kErrors = std::to_array<ErrorRow>({
    {Code::kInvalidArgument, 400, "BadRequestError"},
    {Code::kNotFound, 404, "NotFoundError"},
    {Code::kOverloaded, 503, "Service Unavailable"},
    {Code::kCancelled, 503, "ServiceUnavailableError"},
    {Code::kUnsupported, 501, "NotImplementedError"},
    {Code::kUnavailable, 503, "ServiceUnavailableError"},
    {Code::kInternal, 500, "InternalServerError"},
});

/// A failed schema is spelled differently from a failed rule; it names a path in the body.
bool is_schema_error(const Error& error) {
  return error.code == Code::kInvalidArgument &&
         (error.param == "body" || error.param.starts_with("body."));
}

}  // namespace

HttpResponse error_response(int status, std::string_view type, std::string_view message,
                            std::string_view param) {
  HttpResponse response;
  response.status = status;
  JsonWriter w(response.body);
  w.begin_object().key("error").begin_object();
  w.key("message").string(message).key("type").string(type).key("param");
  if (param.empty()) {
    w.null();
  } else {
    w.string(param);
  }
  w.key("code").integer(status).end_object().end_object();
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse error_response(const Error& error) {
  if (is_schema_error(error)) return error_response(400, "Bad Request", error.message, error.param);
  for (const ErrorRow& row : kErrors) {
    if (row.code == error.code) {
      return error_response(row.status, row.type, error.message, error.param);
    }
  }
  return error_response(500, "InternalServerError", error.message, error.param);
}

}  // namespace octavo::openai
