//! RDMA that a kernel emulates on a network card (soft RoCE, drivers/infiniband/sw/rxe), switched on in a
//! guest.
//!
//! One message of the kernel's RDMA netlink family (include/uapi/rdma/rdma_netlink.h,
//! drivers/infiniband/core/nldev.c, `nldev_newlink`), so that no other program is needed in the guest.

use rustix::io::Errno;
use rustix::net::netlink::{RDMA, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::io;

/// The device's name.
const DEVICE: &str = "rxe0";
/// `RDMA_NL_NLDEV` and `RDMA_NLDEV_CMD_NEWLINK` as a message's type.
const NEW_LINK: u16 = 5 << 10 | 3;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const FLAGS: u16 = 1 | 4;
/// `RDMA_NLDEV_ATTR_DEV_NAME`, `RDMA_NLDEV_ATTR_NDEV_NAME`, `RDMA_NLDEV_ATTR_LINK_TYPE`.
const DEVICE_NAME: u16 = 2;
const CARD_NAME: u16 = 51;
const LINK_TYPE: u16 = 65;
/// The bytes of a message's header (`struct nlmsghdr`).
const HEADER: usize = 16;
/// The type of an acknowledgement (`NLMSG_ERROR`); 0 in it is success.
const ACKNOWLEDGED: u16 = 2;

/// Adds the RDMA device `rxe0` on a network card. Needs root and the module rdma_rxe.
///
/// # Errors
/// The kernel's own.
pub fn add_soft_roce(card: &str) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(RDMA))?;
    sendto(&socket, &message(card), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 4096];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    outcome(&answer[..length])
}

/// The message that asks for it.
fn message(card: &str) -> Vec<u8> {
    let attributes = [(DEVICE_NAME, DEVICE), (LINK_TYPE, "rxe"), (CARD_NAME, card)];
    let body: Vec<u8> = attributes.into_iter().flat_map(|(kind, text)| attribute(kind, text)).collect();
    let length = (HEADER + body.len()) as u32;
    let (sequence, port) = (1_u32, 0_u32);
    let header = [
        &length.to_ne_bytes()[..],
        &NEW_LINK.to_ne_bytes(),
        &FLAGS.to_ne_bytes(),
        &sequence.to_ne_bytes(),
        &port.to_ne_bytes(),
    ];
    [header.concat(), body].concat()
}

/// A text that ends in a zero byte, filled up to a multiple of four bytes (`struct nlattr`).
fn attribute(kind: u16, text: &str) -> Vec<u8> {
    let length = (4 + text.len() + 1) as u16;
    let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), text.as_bytes(), &[0]].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// What the kernel answered.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is no acknowledgement");
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, code) {
        (Some(ACKNOWLEDGED), Some(0)) => Ok(()),
        (Some(ACKNOWLEDGED), Some(code)) => Err(Errno::from_raw_os_error(code.saturating_neg()).into()),
        _ => Err(odd()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_the_kernel_s_layout() {
        let message = message("eth0");
        assert_eq!(message[..4], (message.len() as u32).to_ne_bytes());
        assert_eq!(message[4..8], [&0x1403_u16.to_ne_bytes()[..], &5_u16.to_ne_bytes()].concat());
        // `rxe0` with its zero takes 9 bytes, filled up to 12; the next follows at once.
        assert_eq!(
            message[16..28],
            [&9_u16.to_ne_bytes()[..], &2_u16.to_ne_bytes(), b"rxe0\0\0\0\0"].concat()
        );
        assert_eq!(message[28..36], [&8_u16.to_ne_bytes()[..], &65_u16.to_ne_bytes(), b"rxe\0"].concat());
        assert!(message.ends_with(b"eth0\0\0\0\0"));
    }

    #[test]
    fn an_acknowledgement_says_what_the_kernel_refuses() {
        let answer = |code: i32| [&[0; 4][..], &2_u16.to_ne_bytes(), &[0; 10], &code.to_ne_bytes()].concat();
        assert!(outcome(&answer(0)).is_ok());
        let refused = outcome(&answer(-17)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(outcome(&[0; 10]).is_err());
    }
}
