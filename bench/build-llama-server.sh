#!/usr/bin/env bash
# Builds llama-server, the peer of `npm run bench -- engine`, from the source that node-llama-cpp carries, and links it
# to the very libraries that node-llama-cpp runs: what differs is scheduling and front end, not kernels. Needs git, cmake,
# ninja and a C++17 compiler, and about twenty minutes of one core. Usage: build-llama-server.sh FOLDER
set -euo pipefail

folder=$(mkdir -p "${1:?usage: build-llama-server.sh FOLDER}" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
libraries="$root/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"

if [ ! -d "$folder/source" ]; then
  git clone --quiet "$root/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$folder/source"
fi

mkdir -p "$folder/project"
cat > "$folder/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(llama_server_on_prebuilt_libraries C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_BUILD_RPATH ${LIBRARIES})
find_package(Threads REQUIRED)
set_source_files_properties(${SOURCE}/vendor/hash/sha1/sha1.c PROPERTIES LANGUAGE CXX)

# Images are never sent, but the server does not link without the code for them.
file(GLOB vision ${SOURCE}/tools/mtmd/*.cpp ${SOURCE}/tools/mtmd/models/*.cpp)
list(FILTER vision EXCLUDE REGEX "mtmd-cli|deprecation")
add_library(vision STATIC ${vision} ${SOURCE}/vendor/hash/hash.cpp ${SOURCE}/vendor/hash/xxhash/xxhash.c
  ${SOURCE}/vendor/hash/sha1/sha1.c ${SOURCE}/vendor/hash/sha256/sha256.c)
target_include_directories(vision PRIVATE ${SOURCE}/vendor/hash)
target_compile_options(vision PRIVATE -O1 -w)

add_executable(embed ${SOURCE}/tools/ui/embed.cpp)
add_custom_command(OUTPUT ui.cpp ui.h COMMAND embed ui.cpp ui.h)

file(GLOB server ${SOURCE}/tools/server/*.cpp)
add_executable(llama-server ${server} ${SOURCE}/vendor/cpp-httplib/httplib.cpp ui.cpp)
target_compile_options(llama-server PRIVATE -O2 -w)
target_include_directories(llama-server PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_compile_definitions(llama-server PRIVATE CPPHTTPLIB_LISTEN_BACKLOG=512 CPPHTTPLIB_TCP_NODELAY=1)

foreach(target vision llama-server)
  target_compile_definitions(${target} PRIVATE LLAMA_SHARED GGML_SHARED GGML_BACKEND_SHARED LLAMA_SUBPROCESS)
  target_include_directories(${target} PRIVATE ${SOURCE} ${SOURCE}/include ${SOURCE}/ggml/include ${SOURCE}/common
    ${SOURCE}/vendor ${SOURCE}/tools/mtmd ${SOURCE}/tools/server)
endforeach()
target_link_libraries(llama-server vision ${LIBRARIES}/libllama-common.so ${LIBRARIES}/libllama.v0.4.0.so
  ${LIBRARIES}/libggml.v0.4.0.so ${LIBRARIES}/libggml-base.so Threads::Threads)
CMAKE

cmake -S "$folder/project" -B "$folder/build" -G Ninja -DSOURCE="$folder/source" -DLIBRARIES="$libraries" > /dev/null
nice -n 19 ninja -C "$folder/build" -j "${JOBS:-1}" llama-server
# The server looks for the kernels of each processor beside itself.
ln -sf "$libraries"/libggml-cpu-*.so "$folder/build/"
echo "ORCHESTRA_LLAMA_SERVER=$folder/build/llama-server"
