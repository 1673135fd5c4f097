# The two commands of the README, from a bare Debian 12.
#   docker build -t mxoracle . && docker run --rm mxoracle mxo list
FROM debian:12
WORKDIR /mxoracle
COPY . .
RUN tools/demo.sh
RUN tools/test.sh
RUN ln -s /mxoracle/build/release/mxo /usr/local/bin/mxo
CMD ["mxo", "--help"]
