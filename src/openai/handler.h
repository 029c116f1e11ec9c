#pragma once

#include <exception>
#include <memory>

#include "openai/api.h"
#include "openai/json_body.h"
#include "openai/request_common.h"

namespace octavo::openai {

/// Runs `handle(body)` on the parsed body of a JSON request; a failure becomes the answer. What a
/// library throws ends here.
template <class F>
void handle_json(const ApiContext& api, const HttpRequest& http, Exchange& exchange, F handle) {
  if (auto refused = check_content_type(http)) return exchange.respond(std::move(*refused));
  try {
    auto body = JsonBody::parse(http.body, api.config->server.max_json_depth);
    Status status = body.ok() ? handle(*body) : Status(body.error());
    if (!status.ok()) exchange.respond(error_response(status.error()));
  } catch (const std::exception&) {
    exchange.respond(error_response(500, "InternalServerError", "Internal error"));
  }
}

/// A frontend request with what all routes have in common.
inline frontend::GenerateRequest make_generate_request(const CommonRequest& common,
                                                       std::string request_id,
                                                       std::vector<engine::TokenId> prompt,
                                                       engine::SamplingParams sampling,
                                                       double arrival_wall_s) {
  frontend::GenerateRequest out;
  out.request_id = std::move(request_id);
  out.prompt = std::move(prompt);
  out.sampling = std::move(sampling);
  out.text = common.text;
  out.n = common.n;
  out.arrival_wall_s = arrival_wall_s;
  out.priority = common.priority;
  out.cache_salt = common.cache_salt;
  return out;
}

}  // namespace octavo::openai
