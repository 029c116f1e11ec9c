# Debian 12 packages; tools/install_packages.sh installs them and says why each is needed.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED COMPONENTS headers)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Asio is compiled once, in this library, not in every file that uses it.
add_library(octavo_asio STATIC ${PROJECT_SOURCE_DIR}/cmake/asio.cc)
target_link_libraries(octavo_asio PUBLIC Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
target_compile_definitions(octavo_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION
                                              BOOST_ASIO_NO_DEPRECATED)
# False positive of g++ 12 in Asio's coroutine frames.
target_compile_options(octavo_asio PUBLIC $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
